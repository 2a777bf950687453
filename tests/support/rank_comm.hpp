// One rank's communicator of a collective plugin, driven through the C ABI. Operations throw CallFailed where they
// fail.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <cohort/api/collective.h>

#include "call_failed.hpp"
#include "fake_host.hpp"

namespace cohort::test {

/// Values of options by key, where they are not the defaults.
using OptionValues = std::map<std::string, std::string>;

/// A collective of one rank.
class RankCollective {
 public:
  RankCollective(const cohort_component& component, const OptionValues& values);
  ~RankCollective();
  RankCollective(const RankCollective&) = delete;
  RankCollective& operator=(const RankCollective&) = delete;

  const cohort_collective_vt& vt() const { return *object_.vt; }
  cohort_collective* object() { return &object_; }
  void check(cohort_status status);

 private:
  FakeHost host_;
  cohort_collective object_;
};

using GroupKey = std::array<uint8_t, 32>;
/// The key of ranks in tests that set no other.
constexpr GroupKey kGroupKey{1, 2, 3};

class RankComm {
 public:
  RankComm(const cohort_component& component, cohort_store* store, int rank, int size,
           std::chrono::nanoseconds timeout = std::chrono::seconds(60), const OptionValues& options = {},
           const std::vector<int32_t>& job_ranks = {}, const GroupKey& key = kGroupKey);
  ~RankComm();  // closes
  RankComm(RankComm&& other) noexcept;
  RankComm& operator=(RankComm&&) = delete;

  const cohort_collective_vt& vt() const { return collective_->vt(); }
  int rank() const { return comm_.rank; }
  int size() const { return comm_.size; }
  explicit operator bool() const { return comm_.data != nullptr; }

  /// False in a bool context where this rank gets none.
  RankComm split(int color, int key);
  void abort();
  void* alloc(uint64_t nbytes);
  void release(void* memory);

  void all_reduce(const void* input, void* output, int32_t dtype, uint64_t count, int32_t reduce);
  void broadcast(const void* input, void* output, int32_t dtype, uint64_t count, int32_t root);
  void all_gather(const void* input, void* output, int32_t dtype, uint64_t count);
  void reduce(const void* input, void* output, int32_t dtype, uint64_t count, int32_t reduce, int32_t root);
  /// A count for each rank.
  void all_gather(const void* input, void* output, int32_t dtype, const std::vector<uint64_t>& counts);
  void reduce_scatter(const void* input, void* output, int32_t dtype, const std::vector<uint64_t>& counts,
                      int32_t reduce);
  void exchange(const std::vector<cohort_message>& messages);
  void barrier();

 private:
  explicit RankComm(std::shared_ptr<RankCollective> collective);
  cohort_op_args operation(const void* input, void* output, int32_t dtype, uint64_t count) const;

  std::shared_ptr<RankCollective> collective_;
  cohort_comm comm_{};
};

}  // namespace cohort::test
