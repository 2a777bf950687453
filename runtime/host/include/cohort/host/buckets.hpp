// Flat buffers with the layout of the buckets: GRAD, WEIGHT, STATE(name) and OPTIM(name).
//
// Owns their memory, which comes from the collective where it has some. Views live until the next configure, those of
// gradients in place until the end of the step. configure is collective and [main]; views may be asked for from any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cohort/api/host/buckets.h>
#include <cohort/host/bucket_layout.hpp>
#include <cohort/host/strategy_state.hpp>

namespace cohort::host {

/// Zero-filled memory, aligned to 64 bytes, given back by the deleter.
using BucketMemory = std::unique_ptr<void, std::function<void(void*)>>;
using BucketAllocator = std::function<BucketMemory(uint64_t nbytes)>;
/// First byte of a parameter's gradient where backward made it, or null.
using GradientOf = std::function<void*(uint32_t parameter)>;

/// Gradients that stay where backward made them, and have no place in a flat buffer.
enum class InPlace { kNone, kAlone /* those that fill a bucket */, kAll };

class Buckets {
 public:
  /// `gradient_of`: for gradients in place.
  explicit Buckets(BucketAllocator allocator, GradientOf gradient_of = nullptr)
      : allocator_(std::move(allocator)), gradient_of_(std::move(gradient_of)) {}
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  /// Forgets wishes and layout. STATE is kept aside and comes back, per parameter, with the next configure.
  void reset();
  /// STATE, by name and parameter.
  StrategyState::Buckets state();
  /// Puts back what state() gave, also under another layout; names not wanted yet wait for a configure that does.
  void set_state(StrategyState::Buckets state);
  /// For the next configure.
  void want(int32_t kind, std::string name);
  /// What the layout has.
  bool wanted(int32_t kind) const;
  std::vector<std::string> names(int32_t kind) const;
  /// Lays out and allocates, in place of an earlier layout. `order`: parameters that take part, in the order in which
  /// gradients are expected.
  void configure(std::vector<LayoutParameter> order, const LayoutLimits& limits, int32_t device_type,
                 int32_t device_index, InPlace in_place = InPlace::kNone);

  size_t count() const { return buckets_.size(); }
  /// Null beyond the last.
  const cohort_bucket* get(size_t index) const;
  /// False where that kind was not wanted or has no memory now.
  bool view(size_t index, int32_t kind, const std::string& name, cohort_tensor& view) const;
  /// First byte of a bucket's buffer, or null. Of a gradient in place: where it is now.
  std::byte* data(size_t index, int32_t kind, const std::string& name = {}) const;
  /// For each gradient in place, a piece of memory that the wire reaches: to make it there.
  std::vector<std::span<std::byte>> memory_to_lend() const;
  /// `is_free`: nothing lies in what was ever lent, or in GRAD. Else both stay until a later call that says so.
  void take_back_memory(bool is_free);
  /// What was not free when it was taken back stays until the process ends: the program's tensors lie there.
  void leave_lent_memory();
  bool left_memory() const { return left_memory_; }
  /// For each parameter id below `num_parameters` its place in a kind's buffers, or null.
  std::vector<void*> places(int32_t kind, size_t num_parameters, const std::string& name = {}) const;

 private:
  using Wish = std::pair<int32_t, std::string>;  // kind and name
  struct Bucket {
    BucketPlan plan;
    std::vector<cohort_bucket_part> parts;  // names point into plan
    cohort_bucket abi{};
    int64_t shape = 0;
    int64_t stride = 1;
    bool is_in_place = false;      // its gradient
    uint64_t byte_offset = 0;      // of this bucket in every kind's buffer,
    uint64_t gradient_offset = 0;  // but in that of GRAD, or in memory_to_lend_, here
  };
  BucketAllocator allocator_;
  GradientOf gradient_of_;
  std::vector<Wish> wishes_, asked_;
  std::vector<std::unique_ptr<Bucket>> buckets_;  // stable addresses: plugins hold pointers
  std::map<Wish, BucketMemory> memory_;
  BucketMemory memory_to_lend_;
  std::vector<BucketMemory> lent_before_;
  bool left_memory_ = false;
  StrategyState::Buckets kept_state_;

  void clear_layout();
  std::byte* flat_data(const Bucket& bucket, int32_t kind, const std::string& name) const;
  void keep_state();
  void restore_state(const std::string& name);
};

}  // namespace cohort::host
