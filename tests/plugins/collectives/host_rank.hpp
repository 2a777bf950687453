// Ranks whose collective the host has opened and completed, for collectives that are made of others.
#pragma once

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/plugin_host.hpp>

#include "memory_store.hpp"
#include "ranks.hpp"

namespace cohort::test {

/// What all ranks of a test have in common.
struct HostJob {
  std::string collective;  // a spec
  std::vector<int> nodes;  // by rank: which node it is on
  std::chrono::milliseconds timeout{60'000};
};

inline host::LogSettings errors_alone() {
  host::LogSettings settings;
  settings.level = host::LogLevel::kError;
  return settings;
}

class HostRank {
 public:
  HostRank(host::PluginHost& plugins, const HostJob& job, cohort_store* store, int rank)
      : host_(log_), comms_(plugins, host_, {}) {
    cohort_connect_args group{};
    group.struct_size = sizeof group;
    group.rank = rank;
    group.size = static_cast<int>(job.nodes.size());
    group.device_type = COHORT_DEVICE_CPU;
    group.node_rank = job.nodes[static_cast<std::size_t>(rank)];
    group.timeout_ns = std::chrono::nanoseconds(job.timeout).count();
    group.store = store;
    group.name = "test";
    root_ = comms_.open(job.collective.c_str(), group);
  }

  cohort_comm* root() { return root_; }
  cohort_comm* split(cohort_comm* comm, int color, int key) { return comms_.split(comm, color, key); }
  const cohort_collective_vt& vt() const { return *root_->collective->vt; }
  std::string name() const { return host::Collective::of(root_->collective).name(); }
  std::vector<int> peers_of(cohort_status status) { return host_.peers_of(status); }
  /// Throws what the host throws, with the plugin's message.
  void check(cohort_status status) { host_.check(status, "operation"); }
  void all_reduce(cohort_comm* comm, void* data, int32_t dtype, uint64_t count, int32_t reduce) {
    cohort_op_args args{};
    args.struct_size = sizeof args;
    args.dtype = dtype;
    args.reduce = reduce;
    args.input = args.output = data;
    args.count = count;
    args.stream.device_type = COHORT_DEVICE_CPU;
    check(vt().all_reduce(comm->collective, comm, &args));
  }
  void exchange(cohort_comm* comm, const std::vector<cohort_message>& messages) {
    check(exchange_status(comm, messages));
  }
  cohort_status exchange_status(cohort_comm* comm, const std::vector<cohort_message>& messages) {
    const cohort_exchange_args args{sizeof args, 0, messages.data(), messages.size(), {nullptr, COHORT_DEVICE_CPU, 0}};
    return vt().exchange(comm->collective, comm, &args);
  }

 private:
  host::Log log_{errors_alone()};
  host::HostObject host_;
  host::CommunicatorSet comms_;
  cohort_comm* root_ = nullptr;
};

/// Runs `body` on connected ranks that are threads; rethrows the first exception, by rank.
inline void on_host_ranks(const HostJob& job, const std::function<void(HostRank&)>& body) {
  MemoryStore store;
  host::Log log(errors_alone());
  host::PluginHost plugins({{}, {COHORT_TEST_PLUGIN_DIR}}, log);
  run_as_threads(static_cast<int>(job.nodes.size()), [&](int rank) {
    HostRank connected(plugins, job, store.handle(), rank);
    body(connected);
  });
}

}  // namespace cohort::test
