// The host's services as typed calls, which throw sdk::Error if the host refuses.
//
// Each service table is looked up once. If this host lacks a service at this moment, the call throws
// FAILED_PRECONDITION with its id; only the log is optional. Borrows the cohort_host. Threads: see each service.
#pragma once

#include <string>

#include <cohort/api/host/archive.h>
#include <cohort/api/host/job.h>
#include <cohort/api/host/kernels.h>
#include <cohort/api/host/metrics.h>
#include <cohort/api/host/model.h>
#include <cohort/api/host/stream.h>
#include <cohort/sdk/buckets.hpp>
#include <cohort/sdk/comm.hpp>
#include <cohort/sdk/detail/service.hpp>
#include <cohort/sdk/kernels.hpp>
#include <cohort/sdk/lane.hpp>
#include <cohort/sdk/log.hpp>
#include <cohort/sdk/memory.hpp>
#include <cohort/sdk/optimizer.hpp>
#include <cohort/sdk/proof.hpp>
#include <cohort/sdk/tensor.hpp>

namespace cohort::sdk {
inline namespace v1 {

class Host {
 public:
  explicit Host(const cohort_host* host) : host_(host) {}

  const cohort_host* raw() const { return host_; }
  Log log() const { return {host_, log_.find(host_)}; }

  Comm comm(int32_t role) const {
    const auto& table = comm_.get(host_);
    return {host_, table, table.get(host_, role)};
  }
  /// Returns the calling lane's communicator of the ranks that have the bucket's parameters.
  Comm comm(const cohort_bucket& bucket) const { return comm(bucket.role); }
  Comm world() const { return comm(COHORT_ROLE_WORLD); }
  Comm node() const { return comm(COHORT_ROLE_NODE); }
  Comm leaders() const { return comm(COHORT_ROLE_LEADERS); }
  /// Opens a communicator of a group. `spec` names a collective ("gloo,iface=eth0"; null: the chosen one). Collective.
  OwnedComm open_comm(const char* spec, const cohort_connect_args& group) const {
    const auto& table = comm_.get(host_);
    cohort_comm* comm = nullptr;
    check(table.open(host_, spec, &group, &comm));
    return OwnedComm({host_, table, comm});
  }
  /// Gives the host the communicator of all ranks, in init_dist_connection.
  void bind(OwnedComm world) const {
    check(comm_.get(host_).bind(host_, world.raw()));
    world.hand_over();
  }

  /// Returns the calling thread's stream of a device. Do not keep it.
  cohort_stream stream(int32_t device_type, int32_t device_index) const {
    cohort_stream stream{};
    check(stream_.get(host_).current(host_, device_type, device_index, &stream));
    return stream;
  }
  /// Returns the calling thread's stream of the bucket's device.
  cohort_stream stream(const cohort_bucket& bucket) const { return stream(bucket.device_type, bucket.device_index); }
  /// Returns device memory with any contents, for the next work of the calling thread's stream.
  DeviceBuffer alloc(int32_t device_type, int32_t device_index, uint64_t nbytes) const {
    return {host_, memory_.get(host_), device_type, device_index, nbytes};
  }
  /// Copies from host memory to the stream's device, and blocks until `from` may be reused.
  void write(void* to, const void* from, uint64_t nbytes, const cohort_stream& stream) const {
    check(memory_.get(host_).write(host_, to, from, nbytes, &stream));
  }
  /// Copies from the stream's device to host memory, and blocks until the bytes are there.
  void read(void* to, const void* from, uint64_t nbytes, const cohort_stream& stream) const {
    check(memory_.get(host_).read(host_, to, from, nbytes, &stream));
  }

  /// Returns this rank's place in the job, and the job's settings. The texts live as long as the host object.
  cohort_job_info job() const {
    cohort_job_info info{};
    info.struct_size = sizeof info;
    check(job_.get(host_).get(host_, &info));
    return info;
  }

  /// Returns proofs with the key of a group, which is borrowed. Throws FAILED_PRECONDITION if the group has none.
  Proof proof(const cohort_connect_args& group) const { return {host_, proof_.get(host_), group}; }

  Buckets buckets() const { return {host_, buckets_.get(host_)}; }

  uint32_t num_params() const { return params_.get(host_).count(host_); }
  TensorView param(uint32_t index) const {
    cohort_tensor tensor{};
    check(params_.get(host_).get(host_, index, &tensor));
    return TensorView(tensor);
  }

  /// Runs the host optimizer's step over the parameters of a phase.
  void optimizer_step(uint32_t phase) const { optimizers().step(phase); }
  Optimizers optimizers() const { return {host_, optimizer_.get(host_)}; }

  /// Returns the lane that reduces buckets.
  Lane default_lane() const { return {host_, lane_.get(host_), 0}; }
  /// Returns the lane with this name, which has its own communicators. The first call makes it. Collective, in
  /// configure_model.
  Lane lane(const char* name) const {
    uint32_t index = 0;
    check(lane_.get(host_).create(host_, name, &index));
    return {host_, lane_.get(host_), index};
  }

  /// Sets a number of the run's summary ("rounds"), which shows rank 0's last value. Threads: any.
  void set_metric(const char* name, double value) const { check(metrics_.get(host_).set(host_, name, value)); }

  /// Saves a value in a checkpoint, in save_state. Keys belong to the layer. Values belong to the rank or, with
  /// COHORT_ARCHIVE_SHARED in `flags`, to all ranks.
  void save(const char* key, const void* value, uint64_t nbytes, uint32_t flags = 0) const {
    check(archive_.get(host_).set(host_, key, flags, value, nbytes));
  }
  /// Loads a value, in load_state. Returns false if the checkpoint has no such value of that size.
  bool load(const char* key, void* value, uint64_t nbytes) const {
    uint64_t found = 0;
    const cohort_status status = archive_.get(host_).get(host_, key, value, nbytes, &found);
    if (status != COHORT_OK && status != COHORT_NOT_FOUND && status != COHORT_RESOURCE_EXHAUSTED) check(status);
    return status == COHORT_OK && found == nbytes;
  }
  /// Returns, in load_state, the number of ranks of the run that wrote the checkpoint.
  int saved_world_size() const { return archive_.get(host_).saved_world_size(host_); }
  /// Returns, in load_state, the version of this layer's plugin that wrote the checkpoint; "" if that run lacked it.
  std::string saved_version() const {
    const char* const version = archive_.get(host_).saved_version(host_);
    return version ? version : "";
  }

  /// Returns kernels for the CPU or for the run's device type. Throws FAILED_PRECONDITION for other types.
  CoreKernels core_kernels(int32_t device_type) const {
    return CoreKernels(kernel_table<cohort_kernels_core_1>(device_type));
  }
  MinmaxUint8Kernels minmax_uint8_kernels(int32_t device_type) const {
    return MinmaxUint8Kernels(kernel_table<cohort_kernels_minmax_uint8_1>(device_type));
  }
  AdamKernels adam_kernels(int32_t device_type) const {
    return AdamKernels(kernel_table<cohort_kernels_adam_1>(device_type));
  }
  RingKernels ring_kernels(int32_t device_type) const {
    return RingKernels(kernel_table<cohort_kernels_ring_1>(device_type));
  }
  /// Returns a vendor's table by its id, or null if the run's accelerator has none.
  const void* find_kernels(int32_t device_type, const char* id) const {
    return kernels_.get(host_).table(host_, device_type, id);
  }

 private:
  const cohort_host* host_;
  detail::Service<cohort_log_1> log_{COHORT_LOG_ID};
  detail::Service<cohort_comm_1> comm_{COHORT_COMM_ID};
  detail::Service<cohort_buckets_1> buckets_{COHORT_BUCKETS_ID};
  detail::Service<cohort_params_1> params_{COHORT_PARAMS_ID};
  detail::Service<cohort_optimizer_1> optimizer_{COHORT_OPTIMIZER_ID};
  detail::Service<cohort_lane_1> lane_{COHORT_LANE_ID};
  detail::Service<cohort_kernels_1> kernels_{COHORT_KERNELS_ID};
  detail::Service<cohort_metrics_1> metrics_{COHORT_METRICS_ID};
  detail::Service<cohort_job_1> job_{COHORT_JOB_ID};
  detail::Service<cohort_proof_1> proof_{COHORT_PROOF_ID};
  detail::Service<cohort_archive_1> archive_{COHORT_ARCHIVE_ID};
  detail::Service<cohort_stream_1> stream_{COHORT_STREAM_ID};
  detail::Service<cohort_memory_1> memory_{COHORT_MEMORY_ID};

  template <class Table>
  const Table& kernel_table(int32_t device_type) const {
    const auto* table = static_cast<const Table*>(find_kernels(device_type, detail::kKernelsId<Table>));
    if (!table) throw failed_precondition("there are no kernels for device type " + std::to_string(device_type));
    return *table;
  }
};

}  // namespace v1
}  // namespace cohort::sdk
