#include "services.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>

#include <cohort/api/cohort.h>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/sdk/dtype.hpp>

#include "given/given_args.hpp"
#include "host_object/guarded.hpp"
#include "rank/rank_state.hpp"

namespace cohort::host {
namespace {

// ---- buckets/1

bool has_name(int32_t kind) {
  return kind == COHORT_BUCKET_STATE || kind == COHORT_BUCKET_OPTIM;
}

// Names of STATE belong to the layer that calls.
std::string name_of_buffer(const cohort_host* host, int32_t kind, const char* name) {
  if (!has_name(kind) || !name) return "";
  return kind == COHORT_BUCKET_STATE ? HostObject::component_of(host) + "/" + name : name;
}

// The buckets, while plan_buckets runs.
Buckets& planned_buckets_of(const cohort_host* host, const std::string& call) {
  const RankState& state = rank_of(host);
  if (state.training.layout.is_planning) return *state.buckets;
  throw UserError("strategy " + in_quotes(HostObject::component_of(host)) + " called buckets/1." + call +
                  " outside of plan_buckets; call it there");
}

void check_want(int32_t kind, const char* name, int32_t dtype, uint32_t flags) {
  const auto refuse = [](const std::string& why) { throw UserError("buckets/1.want: " + why); };
  const bool is_state = kind == COHORT_BUCKET_STATE;
  if (kind != COHORT_BUCKET_GRAD && kind != COHORT_BUCKET_WEIGHT && !has_name(kind)) {
    refuse("unknown kind " + std::to_string(kind) + "; take a COHORT_BUCKET_ constant");
  }
  if (has_name(kind) && (!name || !*name)) refuse("STATE and OPTIM need a name");
  if (dtype != 0 && !is_state) refuse("a type is for STATE; give 0");
  if (dtype != 0 && sdk::size_of(dtype) == 0) refuse("unknown type " + std::to_string(dtype));
  if (flags & ~(is_state ? COHORT_STATE_SCRATCH | COHORT_STATE_SHARED : 0u)) {
    refuse("unknown flags " + std::to_string(flags));
  }
}

cohort_status buckets_want(const cohort_host* host, int32_t kind, const char* name, int32_t dtype,
                           uint32_t flags) noexcept {
  return guarded(host, [&] {
    Buckets& buckets = planned_buckets_of(host, "want");
    check_want(kind, name, dtype, flags);
    if (kind == COHORT_BUCKET_GRAD) {
      rank_of(host).layers->want_gradients(host);
    } else {
      buckets.want({kind, name_of_buffer(host, kind, name), dtype, flags});
    }
    return COHORT_OK;
  });
}

cohort_status buckets_drop(const cohort_host* host, int32_t kind) noexcept {
  return guarded(host, [&] {
    static_cast<void>(planned_buckets_of(host, "drop"));
    if (kind != COHORT_BUCKET_GRAD) throw UserError("buckets/1.drop: only GRAD can be dropped");
    rank_of(host).layers->drop_gradients(host);
    return COHORT_OK;
  });
}

uint32_t buckets_count(const cohort_host* host) noexcept {
  return static_cast<uint32_t>(rank_of(host).buckets->count());
}
const cohort_bucket* buckets_get(const cohort_host* host, uint32_t index) noexcept {
  return rank_of(host).buckets->get(index);
}
cohort_status buckets_view(const cohort_host* host, uint32_t index, int32_t kind, const char* name,
                           cohort_tensor* view) noexcept {
  return guarded(host, [&] {
    rank_of(host).buckets->view(index, kind, name_of_buffer(host, kind, name), *view);
    return COHORT_OK;
  });
}

cohort_status buckets_request_relayout(const cohort_host* host) noexcept {
  return guarded(host, [&] {
    rank_of(host).training.layout.is_requested = true;
    return COHORT_OK;
  });
}

constexpr cohort_buckets_1 kBuckets{.want = buckets_want,
                                    .drop = buckets_drop,
                                    .count = buckets_count,
                                    .get = buckets_get,
                                    .view = buckets_view,
                                    .request_relayout = buckets_request_relayout};

// ---- params/1, kernels/1

std::span<const cohort_tensor> parameters_of(const cohort_host* host) {
  ModelPort* const model = rank_of(host).training.model;
  return model ? model->parameters() : std::span<const cohort_tensor>{};
}

uint32_t params_count(const cohort_host* host) noexcept {
  return static_cast<uint32_t>(parameters_of(host).size());
}
cohort_status params_get(const cohort_host* host, uint32_t index, cohort_tensor* weight) noexcept {
  return guarded(host, [&] {
    const auto parameters = parameters_of(host);
    if (index >= parameters.size()) {
      return host->fail(host, COHORT_OUT_OF_RANGE, "params/1: there is no parameter of this index; ask count()");
    }
    *weight = parameters[index];
    return COHORT_OK;
  });
}
constexpr cohort_params_1 kParams{params_count, params_get};

const void* kernel_table(const cohort_host* host, int32_t device_type, const char* id) noexcept {
  return id ? rank_of(host).accelerator->kernels(device_type, id) : nullptr;
}
constexpr cohort_kernels_1 kKernels{kernel_table};

// ---- metrics/1

bool is_metric_name(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto fits = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= 64 && is_letter(name[0]) && std::ranges::all_of(name, fits);
}

cohort_status metrics_set(const cohort_host* host, const char* name, double value) noexcept {
  return guarded(host, [&] {
    const std::string call = "strategy " + in_quotes(HostObject::component_of(host)) + " called metrics/1.set for " +
                             in_quotes(name ? name : "");
    if (!name || !is_metric_name(name)) {
      throw UserError(call + ", which is no name; use a-z, 0-9 and _, at most 64, a letter first");
    }
    if (!std::isfinite(value)) throw UserError(call + " with " + std::to_string(value) + "; give finite numbers only");
    RankState& state = rank_of(host);
    const std::lock_guard lock(state.training.metrics.mutex);
    state.training.metrics.values[name] = value;
    return COHORT_OK;
  });
}
constexpr cohort_metrics_1 kMetrics{metrics_set};

// ---- job/1

cohort_status job_get(const cohort_host* host, cohort_job_info* info) noexcept {
  return guarded(host, [&] {
    const RankSetup& setup = rank_of(host).setup;
    const Topology& place = setup.topology;
    cohort_job_info known = checked_copy(*info, COHORT_JOB_INFO_SIZE_1_0, "job/1.get", "cohort_job_info");
    if (const auto problem = reserved_problem(known.reserved0, "cohort_job_info"); !problem.empty()) {
      throw UserError("job/1.get was given what " + problem);
    }
    known.flags = setup.deterministic ? COHORT_JOB_DETERMINISTIC : 0;
    known.rank = place.rank;
    known.world_size = place.world_size;
    known.local_rank = place.local_rank;
    known.local_world_size = place.local_world_size;
    known.node_rank = place.node_rank;
    known.num_nodes = place.num_nodes;
    known.replicas = setup.selection.replicas;
    known.seed = setup.seed;
    known.run_id = place.run_id.c_str();
    known.precision = setup.precision.c_str();
    known.log_dir = setup.log_dir.c_str();
    known.struct_size = std::min<uint32_t>(info->struct_size, sizeof known);
    std::memcpy(info, &known, known.struct_size);
    return COHORT_OK;
  });
}
constexpr cohort_job_1 kJob{job_get};

}  // namespace

const void* find_service(std::string_view id) {
  if (id == COHORT_COMM_ID) return &comm_service();
  if (id == COHORT_BUCKETS_ID) return &kBuckets;
  if (id == COHORT_PARAMS_ID) return &kParams;
  if (id == COHORT_KERNELS_ID) return &kKernels;
  if (id == COHORT_METRICS_ID) return &kMetrics;
  if (id == COHORT_JOB_ID) return &kJob;
  if (id == COHORT_ARCHIVE_ID) return &archive_service();
  if (id == COHORT_OPTIMIZER_ID) return &optimizer_service();
  if (id == COHORT_LANE_ID) return &lane_service();
  if (id == COHORT_STREAM_ID) return &stream_service();
  if (id == COHORT_MEMORY_ID) return &memory_service();
  return nullptr;
}

}  // namespace cohort::host
