// The service tables that strategies of a rank are given: cohort/api/host/.
#include <string>

#include <cohort/api/cohort.h>
#include <cohort/host/error.hpp>
#include <cohort/sdk/dtype.hpp>

#include "guarded.hpp"
#include "rank_state.hpp"

namespace cohort::host {
namespace {

// ---- comm/1

cohort_status comm_open(const cohort_host* host, const char* collective, const cohort_connect_args* group,
                        cohort_comm** comm) noexcept {
  return guarded(host, [&] {
    *comm = rank_of(host).comms->open(collective, *group);
    return COHORT_OK;
  });
}

cohort_status comm_bind(const cohort_host* host, int32_t role, cohort_comm* comm) noexcept {
  return guarded(host, [&] {
    if (role != COHORT_ROLE_WORLD)
      throw UserError("comm/1.bind takes the role world; node and leaders are split from it");
    if (rank_of(host).root) throw UserError("comm/1.bind was called twice; one layer alone binds the world");
    rank_of(host).bind_world(comm);
    return COHORT_OK;
  });
}

cohort_comm* comm_get(const cohort_host* host, int32_t role) noexcept {
  const RoleComms& comms = rank_of(host).lane_comms;
  switch (role) {
    case COHORT_ROLE_WORLD:
      return comms.world;
    case COHORT_ROLE_NODE:
      return comms.node;
    case COHORT_ROLE_LEADERS:
      return comms.leaders;
    default:
      return nullptr;
  }
}

// In the lane at once; elsewhere on the lane, waited for.
template <class Operation>
cohort_status on_lane(const cohort_host* host, const cohort_comm* comm, Operation&& operation) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    if (!comm) throw UserError("the communicator is null: this rank has none for that role");
    if (!state.lane || state.lane->is_current_thread()) return operation(state.traffic);
    state.lane->run([&] { state.host.check(operation(state.traffic), "operation outside a lane"); });
    return COHORT_OK;
  });
}

cohort_status comm_exchange(const cohort_host* host, cohort_comm* comm, const cohort_exchange_args* args) noexcept {
  return on_lane(host, comm, [&](Traffic& traffic) { return run_exchange(comm, *args, &traffic); });
}
cohort_status comm_all_reduce(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return on_lane(host, comm, [&](Traffic& traffic) { return run_all_reduce(comm, *args, &traffic); });
}
cohort_status comm_reduce(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return on_lane(host, comm, [&](Traffic& traffic) { return run_reduce(comm, *args, &traffic); });
}
cohort_status comm_broadcast(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return on_lane(host, comm, [&](Traffic& traffic) { return run_broadcast(comm, *args, &traffic); });
}
cohort_status comm_all_gather(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return on_lane(host, comm, [&](Traffic& traffic) { return run_all_gather(comm, *args, &traffic); });
}
cohort_status comm_reduce_scatter(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return on_lane(host, comm, [&](Traffic& traffic) { return run_reduce_scatter(comm, *args, &traffic); });
}
cohort_status comm_all_to_all(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return on_lane(host, comm, [&](Traffic& traffic) { return run_all_to_all(comm, *args, &traffic); });
}
cohort_status comm_barrier(const cohort_host* host, cohort_comm* comm) noexcept {
  return on_lane(host, comm, [&](Traffic&) { return run_barrier(comm); });
}

constexpr cohort_comm_1 kComm{.open = comm_open,
                              .bind = comm_bind,
                              .get = comm_get,
                              .exchange = comm_exchange,
                              .all_reduce = comm_all_reduce,
                              .reduce = comm_reduce,
                              .broadcast = comm_broadcast,
                              .all_gather = comm_all_gather,
                              .reduce_scatter = comm_reduce_scatter,
                              .all_to_all = comm_all_to_all,
                              .barrier = comm_barrier};

// ---- buckets/1

cohort_status buckets_want(const cohort_host* host, int32_t kind, const char* name) noexcept {
  return guarded(host, [&] {
    if (kind != COHORT_BUCKET_GRAD && kind != COHORT_BUCKET_WEIGHT && kind != COHORT_BUCKET_STATE) {
      throw UserError("buckets/1.want: unknown kind " + std::to_string(kind));
    }
    if (kind == COHORT_BUCKET_STATE && (!name || !*name)) throw UserError("buckets/1.want: STATE needs a name");
    rank_of(host).buckets->want(kind, kind == COHORT_BUCKET_STATE ? name : "");
    return COHORT_OK;
  });
}

// Reverse registration order: close to the order in which backward completes gradients.
std::vector<LayoutParameter> trained_parameters(RankState& state) {
  std::vector<LayoutParameter> order;
  const auto parameters = state.model->parameters();
  for (size_t i = parameters.size(); i-- > 0;) {
    const cohort_tensor& parameter = parameters[i];
    if (!(parameter.flags & COHORT_TENSOR_REQUIRES_GRAD) || parameter.nbytes == 0) continue;
    if (sdk::size_of(parameter.dtype) == 0) {
      throw UserError("parameter '" + std::string(parameter.name) +
                      "' has a type whose gradients cannot be averaged over ranks; convert it to a real floating type");
    }
    order.push_back({parameter.id, parameter.name, parameter.nbytes / sdk::size_of(parameter.dtype), parameter.dtype,
                     state.model->phase_of(parameter.id)});
  }
  return order;
}

cohort_status buckets_configure(const cohort_host* host, const cohort_bucket_layout* layout) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    if (!state.model) throw UserError("buckets/1.configure: there is no model yet; call it in configure_model");
    const bool given = state.setup.bucket_size.has_value();
    const LayoutLimits limits{given ? *state.setup.bucket_size : layout->size, given ? 0 : layout->first_size,
                              layout->align, layout->one_bucket != 0};
    state.buckets->configure(trained_parameters(state), limits, state.accelerator->device_type(), 0);
    return COHORT_OK;
  });
}

uint64_t buckets_count(const cohort_host* host) noexcept {
  return rank_of(host).buckets->count();
}
const cohort_bucket* buckets_get(const cohort_host* host, uint64_t index) noexcept {
  return rank_of(host).buckets->get(index);
}
cohort_status buckets_view(const cohort_host* host, uint64_t index, uint32_t replica, int32_t kind, const char* name,
                           cohort_tensor* view) noexcept {
  return guarded(host, [&] {
    if (replica != 0) throw UserError("buckets/1.view: this process has one replica, number 0");
    const std::string state_name = kind == COHORT_BUCKET_STATE && name ? name : "";
    if (!rank_of(host).buckets->view(index, kind, state_name, *view)) {
      throw UserError("buckets/1.view: bucket " + std::to_string(index) + " has no such buffer; ask for it with want");
    }
    return COHORT_OK;
  });
}

constexpr cohort_buckets_1 kBuckets{buckets_want, buckets_configure, buckets_count, buckets_get, buckets_view};

// ---- params/1, optimizer/1, kernels/1

cohort_status tensor_at(const cohort_host* host, std::span<const cohort_tensor> tensors, uint64_t index,
                        cohort_tensor* tensor) {
  if (index >= tensors.size()) return host->fail(host, COHORT_OUT_OF_RANGE, "params/1: no tensor of this index");
  *tensor = tensors[index];
  return COHORT_OK;
}

std::span<const cohort_tensor> parameters_of(const cohort_host* host) {
  ModelPort* const model = rank_of(host).model;
  return model ? model->parameters() : std::span<const cohort_tensor>{};
}
std::span<const cohort_tensor> buffers_of(const cohort_host* host) {
  ModelPort* const model = rank_of(host).model;
  return model ? model->buffers() : std::span<const cohort_tensor>{};
}

uint64_t params_count(const cohort_host* host) noexcept {
  return parameters_of(host).size();
}
cohort_status params_get(const cohort_host* host, uint64_t index, cohort_tensor* weight) noexcept {
  return guarded(host, [&] { return tensor_at(host, parameters_of(host), index, weight); });
}
uint64_t params_count_buffers(const cohort_host* host) noexcept {
  return buffers_of(host).size();
}
cohort_status params_get_buffer(const cohort_host* host, uint64_t index, cohort_tensor* buffer) noexcept {
  return guarded(host, [&] { return tensor_at(host, buffers_of(host), index, buffer); });
}
constexpr cohort_params_1 kParams{params_count, params_get, params_count_buffers, params_get_buffer};

cohort_status optimizer_step(const cohort_host* host, uint32_t phase) noexcept {
  return guarded(host, [&] {
    ModelPort* const model = rank_of(host).model;
    if (!model || phase >= model->num_phases())
      throw UserError("optimizer/1.step: no optimizer " + std::to_string(phase));
    model->optimizer_step(phase);
    return COHORT_OK;
  });
}
constexpr cohort_optimizer_1 kOptimizer{optimizer_step};

const cohort_kernels_1* kernel_table(const cohort_host* host, int32_t device_type) noexcept {
  Accelerator& accelerator = *rank_of(host).accelerator;
  return accelerator.device_type() == device_type ? accelerator.kernels() : nullptr;
}
constexpr cohort_kernel_service_1 kKernels{kernel_table};

}  // namespace

const void* find_service(std::string_view id) {
  if (id == COHORT_COMM_ID) return &kComm;
  if (id == COHORT_BUCKETS_ID) return &kBuckets;
  if (id == COHORT_PARAMS_ID) return &kParams;
  if (id == COHORT_OPTIMIZER_ID) return &kOptimizer;
  if (id == COHORT_KERNELS_ID) return &kKernels;
  return nullptr;
}

}  // namespace cohort::host
