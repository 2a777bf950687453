// Collectives and communicators as the host holds them: completed tables, owned comms, counted bytes.
//
// A Collective belongs to one rank; the communicators of a run belong to a CommunicatorSet. Operations on one
// communicator are made by one thread at a time (its lane); opening, splitting and closing happen on the main thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/host/host_object.hpp>
#include <cohort/host/option_table.hpp>

namespace cohort::host {

/// A collective plugin, created for one rank. Slots that the plugin leaves null answer UNIMPLEMENTED with a sentence.
class Collective {
 public:
  Collective(const cohort_component& component, const CheckedOptions& options, HostObject& host);
  ~Collective();
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  cohort_collective* get() { return &collective_; }
  const cohort_collective_vt& table() const { return table_; }
  const std::string& name() const { return name_; }
  HostObject& host() const { return host_; }

 private:
  std::string name_;
  HostObject& host_;
  cohort_collective_vt table_;
  cohort_collective collective_;
};

/// Payload bytes by the algorithm's definition, per rank: what `bytes_sent_per_step` reports.
class Traffic {
 public:
  void count_all_reduce(uint64_t nbytes, int size);     ///< 2 (n-1)/n x nbytes
  void count_one_way(uint64_t whole_nbytes, int size);  ///< (n-1)/n x nbytes: broadcast, all_gather
  void count_sent(uint64_t nbytes) { sent_ += nbytes; }
  uint64_t sent() const { return sent_; }
  void reset() { sent_ = 0; }

 private:
  std::atomic<uint64_t> sent_{0};
};

/// All communicators of one rank.
class CommunicatorSet {
 public:
  CommunicatorSet() = default;
  ~CommunicatorSet();
  CommunicatorSet(const CommunicatorSet&) = delete;
  CommunicatorSet& operator=(const CommunicatorSet&) = delete;

  /// A root communicator. Collective. Throws with the plugin's message.
  cohort_comm* connect(Collective& collective, const cohort_connect_args& args);
  /// A part of `comm`; null where color < 0. Collective over `comm`.
  cohort_comm* split(cohort_comm* comm, int color, int key);
  /// Running and later operations on every communicator return soon. Any thread.
  void abort();

 private:
  std::vector<std::unique_ptr<cohort_comm>> comms_;  // in the order made: closed in reverse
};

/// Runs an operation and counts its bytes; `traffic` may be null (control).
cohort_status run_all_reduce(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic);
cohort_status run_broadcast(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic);
cohort_status run_all_gather(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic);
cohort_status run_exchange(cohort_comm* comm, const cohort_exchange_args& args, Traffic* traffic);
cohort_status run_barrier(cohort_comm* comm);

/// Bytes of one element; 0 for an unknown dtype.
uint64_t element_size(int32_t dtype);
/// "float32" and so on.
std::string dtype_name(int32_t dtype);

}  // namespace cohort::host
