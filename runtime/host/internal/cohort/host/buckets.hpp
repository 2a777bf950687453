// Flat buffers with the layout of the buckets: GRAD, WEIGHT, STATE(name) and OPTIM(name).
//
// A layout has two blocks of memory on each device, which come from the collective if it has some: one for gradients,
// in which tensors of the program may lie after the layout has gone, and one for all other buffers. Views live until
// the next configure, those of GRAD from open_gradients to close_gradients. configure is collective and [main]; views
// may be asked for from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cohort/api/host/buckets.h>
#include <cohort/host/bucket_layout.hpp>
#include <cohort/host/device_port.hpp>
#include <cohort/host/strategy_state.hpp>

namespace cohort::host {

/// Zero-filled memory of a device, aligned to 64 bytes, given back by the deleter.
using BucketMemory = std::unique_ptr<void, std::function<void(void*)>>;
using BucketAllocator = std::function<BucketMemory(Device device, uint64_t nbytes)>;
/// First byte of a parameter's gradient where backward made it, or null.
using GradientOf = std::function<void*(uint32_t parameter)>;

/// Gradients that stay where backward made them, and have no place in a flat buffer.
enum class InPlace { kNone, kAlone /* those that fill a bucket */, kAll };

/// A buffer that a layout has.
struct BufferWant {
  int32_t kind = 0;
  std::string name{};  ///< of STATE: with its layer's, "momentum/anchor"
  int32_t dtype = 0;   ///< of STATE; 0: the bucket's
  uint32_t flags = 0;  ///< of STATE: COHORT_STATE_...
};

class Buckets {
 public:
  /// `gradient_of`: for gradients in place. `has_guards`: damage() looks behind each buffer in memory of the CPU.
  explicit Buckets(RankDevices devices, BucketAllocator allocator, GradientOf gradient_of = nullptr,
                   bool has_guards = false)
      : devices_(devices),
        allocator_(std::move(allocator)),
        gradient_of_(std::move(gradient_of)),
        has_guards_(has_guards) {}
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  /// Forgets wants and layout. STATE is kept aside and comes back, per parameter, with the next configure.
  void reset();
  /// Returns STATE, by name and parameter.
  StrategyState::Buckets state();
  /// Puts back what state() gave, also under another layout; a name that is not wanted yet waits for a layout that
  /// has it. Throws UserError if the type of a buffer is another one now.
  void set_state(StrategyState::Buckets state);
  /// Forgets STATE and which parameters were laid out: what a training has kept is its own.
  void end_training();
  /// Adds a buffer to the next layout. Throws UserError if it is wanted already, with another type or other flags.
  void want(BufferWant want);
  bool has_wants() const { return !wants_.empty(); }
  const std::vector<BufferWant>& wants() const { return wants_; }  ///< of the next layout
  /// Returns whether the present layout has this kind.
  bool has(int32_t kind) const;
  std::vector<std::string> names(int32_t kind) const;
  /// Lays out what was wanted and allocates. `order`: parameters that take part, in the order in which gradients are
  /// expected. Calls `before_gradients` when all memory but that for gradients is there, so that what moves into it
  /// gives its old memory free before.
  void configure(std::vector<LayoutParameter> order, const LayoutLimits& limits, InPlace in_place = InPlace::kNone,
                 const std::function<void()>& before_gradients = nullptr);

  size_t count() const { return buckets_.size(); }
  /// Returns null beyond the last.
  const cohort_bucket* get(size_t index) const;
  /// Fills `view`. Throws UserError if the layout has no such buffer, or for a GRAD view at the wrong time.
  void view(size_t index, int32_t kind, const std::string& name, cohort_tensor& view) const;
  /// From now on GRAD of this bucket may be viewed. [lane]
  void open_gradients(size_t index) { buckets_[index]->gradients_are_open = true; }
  /// From now on it may not, for the buckets of a phase. [step]
  void close_gradients(uint32_t phase);
  /// Returns the first byte of a bucket's buffer, or null. Of a gradient in place: where it is now.
  std::byte* data(size_t index, int32_t kind, const std::string& name = {}) const;
  /// Returns, for each gradient in place, a piece of memory that the collective reaches: to make it there.
  std::vector<std::span<std::byte>> memory_to_lend() const;
  /// Frees memory for gradients, of this layout and of earlier ones, if `is_free` says that no tensor lies there. Else
  /// it stays until a later call that says so. The layout has no gradients any more.
  void take_back_memory(bool is_free);
  /// Memory that was not free when it was taken back stays until the process ends: the program's tensors lie there.
  void leave_lent_memory();
  bool left_memory() const { return left_memory_; }
  /// Returns the first buffer behind which something was written, "STATE 'layer/name' of bucket 0", or "". Any thread,
  /// but while the layout changes.
  std::string damage() const;
  /// Returns, for each parameter id below `num_parameters`, its place in a kind's buffers, or null.
  std::vector<void*> places(int32_t kind, size_t num_parameters, const std::string& name = {}) const;

 private:
  static constexpr uint64_t kNoPlace = ~uint64_t{0};
  using Key = std::pair<int32_t, std::string>;  // kind and name
  struct Bucket {
    BucketPlan plan;
    std::vector<cohort_bucket_part> parts;  // names point into plan
    cohort_bucket abi{};
    int64_t shape = 0;
    int64_t stride = 1;
    bool is_in_place = false;  // its gradient
    std::atomic<bool> gradients_are_open{false};
  };
  struct Buffer {
    int32_t dtype = 0;  // 0: the bucket's
    uint32_t flags = 0;
    std::vector<uint64_t> offsets{};  // by bucket, bytes in its block; kNoPlace for a gradient in place
  };
  /// The memory of a layout on one device.
  struct Blocks {
    Device device;
    uint64_t num_gradient_bytes = 0, num_other_bytes = 0;
    BucketMemory gradients{}, others{};
  };
  RankDevices devices_;
  BucketAllocator allocator_;
  GradientOf gradient_of_;
  std::vector<BufferWant> wants_;                 // of the next layout
  std::vector<std::unique_ptr<Bucket>> buckets_;  // stable addresses: plugins hold pointers
  std::map<Key, Buffer> buffers_;
  std::vector<std::span<std::byte>> to_lend_;
  std::vector<Blocks> blocks_;  // in the order of the first bucket on each device, the same on all ranks
  std::vector<BucketMemory> lent_before_;
  bool left_memory_ = false;
  StrategyState::Buckets kept_state_;
  std::set<uint32_t> laid_out_;  // parameters of this training's layouts
  bool has_guards_;
  struct Guard {
    std::span<std::byte> bytes;
    std::string behind;
  };
  std::vector<Guard> guards_;

  void clear_layout();
  void add_bucket(BucketPlan plan, InPlace in_place);
  void allocate(InPlace in_place, const std::function<void()>& before_gradients);
  Blocks& blocks_of(Device device);
  void set_guards();
  std::byte* flat_data(size_t index, int32_t kind, const std::string& name) const;
  int32_t dtype_of(const Buffer& buffer, size_t index) const;
  /// Calls visit(part, its memory, its type, the bucket's plan) for each parameter that has a place in a buffer.
  template <class Visit>
  void visit_parts(int32_t kind, const std::string& name, Visit visit) const;
  void keep_state();
  void restore_state(const std::string& name);
};

}  // namespace cohort::host
