// The communicators of one rank: the world, and a part of it for each use. The control part carries small collectives.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <cohort/host/buckets.hpp>
#include <cohort/host/communicator.hpp>
#include <cohort/host/connected_rank.hpp>
#include <cohort/host/device_port.hpp>
#include <cohort/host/host_object.hpp>

namespace cohort::host {

/// The communicators that belong to one user of them.
struct RoleComms {
  cohort_comm* world = nullptr;
  cohort_comm* node = nullptr;
  cohort_comm* leaders = nullptr;
};

/// [main] thread. Functions that are not called local are collective.
class RankComms {
 public:
  /// Opens the plugins of the collective, for memory of `accelerator`.
  RankComms(const RankSetup& setup, HostObject& host, const RankDevices& devices, cohort_accelerator* accelerator,
            int32_t device_type);

  CommunicatorSet& set() const { return *set_; }     ///< local
  cohort_comm* world() const { return world_; }      ///< local; null before bind
  cohort_comm* control() const { return control_; }  ///< local; metrics, barriers, votes: nothing else touches it
  cohort_comm* user();                               ///< of the user's own tensors; made at the first call

  /// Returns the communicator of all ranks, with the chosen collective.
  cohort_comm* connect(const cohort_dist_args& args);
  /// Makes a communicator the world, and the control part of it.
  void bind(cohort_comm* comm);
  /// Makes the world of one rank, because strategies expect a world for any number of ranks.
  void bind_alone();
  /// Returns parts of the world for a user of this name.
  RoleComms split_roles(const std::string& name, uint32_t lane);

  /// Runs an operation on the control part.
  template <class Operation>
  void on_control(const char* purpose, Operation&& operation) {
    host_.recorder().set_purpose(control_, std::make_shared<const std::string>(purpose));
    host_.check(operation(control_), purpose);
  }
  bool is_same_on_all_ranks(uint64_t value, const std::string& purpose);
  /// Gives rank `root`'s bytes, or rank 0's text, to all, over the control part.
  void broadcast(void* data, uint64_t nbytes, int root, const char* purpose = "broadcast");
  void broadcast(std::string& text, const char* purpose);

  /// Returns zero-filled memory for buckets, from the collective if it has some there. Local.
  BucketMemory allocate(Device device, uint64_t nbytes);
  /// Gives memory back to the collective of a communicator, once the rank's devices have done their work. Local.
  void release_memory(cohort_comm* comm, void* memory);
  /// Closes all communicators; if tensors of the program lie in their memory, they stay until the process ends. Local.
  void close(bool has_lent_memory);

 private:
  const RankSetup& setup_;
  HostObject& host_;
  RankDevices devices_;
  int32_t device_type_;  // of the collective's memory
  std::unique_ptr<CommunicatorSet> set_;
  cohort_comm* world_ = nullptr;
  cohort_comm* control_ = nullptr;
  cohort_comm* user_ = nullptr;

  cohort_comm* named_part(const std::string& name, int color, uint32_t lane = 0);
};

}  // namespace cohort::host
