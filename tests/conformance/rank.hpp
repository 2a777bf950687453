// One rank as the suite drives it: a host object, the host's communicators, and operations that throw CallFailed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/host/communicator.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/log.hpp>

#include "accelerator/accelerator.hpp"
#include "on_device.hpp"

namespace cohort::conformance {

/// Arguments of an operation; counts of ranks may be left out.
struct Op {
  const void* input = nullptr;
  void* output = nullptr;
  int32_t dtype = COHORT_UINT8;
  uint64_t count = 0;
  int32_t reduce = COHORT_REDUCE_SUM;
  int32_t root = 0;
  const uint64_t* counts = nullptr;
  const uint64_t* recv_counts = nullptr;
};

/// What communicators of a rank on a device have in common.
struct DeviceRank {
  DeviceRank(host::HostObject& host, int rank);

  std::unique_ptr<Device> device;                  // null: host memory
  std::unique_ptr<host::Accelerator> accelerator;  // of the device
  DeviceMemories memories{};
  host::CommunicatorSet* comms = nullptr;
};

/// A communicator. Belongs to a Rank, which outlives it; closed by the destructor, the root by its Rank.
class Comm {
 public:
  Comm(Comm&& other) noexcept;
  Comm& operator=(Comm&&) = delete;
  ~Comm();

  int rank() const { return comm_->rank; }
  int size() const { return comm_->size; }
  /// False where a split gave this rank nothing.
  explicit operator bool() const { return has_; }

  Comm split(int color, int key);
  void abort();
  void* alloc(uint64_t nbytes);
  void release(void* memory);

  void all_reduce(const Op& op) { call(&cohort_collective_vt::all_reduce, op); }
  void reduce(const Op& op) { call(&cohort_collective_vt::reduce, op); }
  void broadcast(const Op& op) { call(&cohort_collective_vt::broadcast, op); }
  void all_gather(const Op& op) { call(&cohort_collective_vt::all_gather, op); }
  void reduce_scatter(const Op& op) { call(&cohort_collective_vt::reduce_scatter, op); }
  void all_to_all(const Op& op) { call(&cohort_collective_vt::all_to_all, op); }
  void exchange(const std::vector<cohort_message>& messages);
  void barrier();

 private:
  friend class Rank;
  using Slot = decltype(&cohort_collective_vt::all_reduce);

  /// `on`: null on the host's memory.
  Comm(host::HostObject& host, cohort_comm* comm, DeviceRank* on);
  Comm(host::HostObject& host, std::unique_ptr<cohort_comm> part);

  const cohort_collective_vt& table() const { return *comm_->collective->vt; }
  void check(cohort_status status);
  void call(Slot slot, const Op& op);
  Comm split_on_device(int color, int key);
  void run_on_device(Slot slot, cohort_op_args args);
  void exchange_on_device(std::vector<cohort_message> messages);
  /// Returns when the device has done what was enqueued. Throws what went wrong behind it.
  void finish();

  host::HostObject* host_;
  DeviceRank* on_;
  cohort_stream stream_{nullptr, COHORT_DEVICE_CPU, 0};
  std::unique_ptr<cohort_comm> part_;  // empty: the root
  cohort_comm* comm_;
  bool has_;
  bool is_part_on_device_ = false;
};

class Rank {
 public:
  /// Connects the rank over the store of its job.
  Rank(cohort_store* store, int rank, int size, std::chrono::nanoseconds timeout);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Comm& root() { return root_; }

 private:
  host::Log log_;
  host::HostObject host_;
  DeviceRank on_;
  std::unique_ptr<host::Collective> stripped_;  // where everything is to be composed
  std::unique_ptr<cohort_comm> stripped_comm_;
  host::CommunicatorSet comms_;
  Comm root_;

  DeviceRank* device_rank() { return on_.device ? &on_ : nullptr; }
  cohort_comm* connect(cohort_connect_args group);
  cohort_comm* connect_stripped(cohort_connect_args group);
};

}  // namespace cohort::conformance
