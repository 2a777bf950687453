#include "rank_setup.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <utility>

#include <cohort/host/error.hpp>

#include "rendezvous.hpp"

namespace cohort {
namespace {

constexpr std::chrono::seconds kConnectTimeout{60};

/// Runs the program's function on the arguments that the ABI has.
void connect_by(const std::function<void(DistConnection&)>& program, cohort_dist_args& args,
                const std::function<void()>& inherited) {
  DistConnection connection{
      .rank = args.rank,
      .world_size = args.world_size,
      .local_rank = args.local_rank,
      .local_world_size = args.local_world_size,
      .node_rank = args.node_rank,
      .num_nodes = args.num_nodes,
      .master_addr = args.master_addr ? args.master_addr : "",
      .master_port = args.master_port,
      .timeout = std::chrono::nanoseconds(args.timeout_ns),
      .store = args.store,
      .connect = {},
  };
  bool has_tried = false;
  std::exception_ptr failure;
  connection.connect = [&] {
    if (std::exchange(has_tried, true)) {
      throw UserError(failure ? "connect() has failed before, and ranks meet once in a job; let its exception pass"
                              : "the ranks are connected already; call connect() once");
    }
    args.master_addr = connection.master_addr.c_str();
    args.master_port = connection.master_port;
    args.timeout_ns = connection.timeout.count();
    args.store = connection.store;
    try {
      inherited();
    } catch (...) {
      failure = std::current_exception();
      throw;
    }
  };
  program(connection);
  if (failure) std::rethrow_exception(failure);  // the program has caught it, and no rank is connected
  args.master_addr = nullptr;                    // it lives no longer than the connection
  if (!has_tried) throw UserError("the program's function did not call connect(); call it once, on all ranks");
}

}  // namespace

host::RankSetup rank_setup(const Runtime::Setup& setup, const host::Topology& topology, host::DevicePort* devices) {
  Rendezvous rendezvous{.is_insecure = setup.options.insecure};
  if (const auto secret = host::job_secret(host::process_environment())) rendezvous.secret = secret->key();
  return {.plugins = setup.plugins,
          .selection = setup.selection,
          .topology = topology,
          .log = setup.log,
          .timeout = setup.options.timeout,
          .connect_timeout = kConnectTimeout,
          .bucket_size = setup.options.bucket_size,
          .autotune_file = setup.options.autotune,
          .deterministic = setup.options.deterministic,
          .options_text = host::text_across_ranks(setup.options),
          .seed = setup.options.seed,
          .precision = std::string(to_string(setup.options.precision)),
          .log_dir = setup.options.log_dir.string(),
          .secret = rendezvous.secret,
          .device_port = devices,
          .init_dist_connection = setup.init_dist_connection ? std::bind_front(connect_by, setup.init_dist_connection)
                                                             : decltype(host::RankSetup::init_dist_connection){},
          .open_store = [topology, rendezvous, &log = setup.log](const cohort_dist_args& args) mutable {
            rendezvous.timeout =
                std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds(args.timeout_ns), kConnectTimeout);
            host::Topology place = topology;  // with what layers have changed
            place.master_addr = args.master_addr ? args.master_addr : "";
            place.master_port = args.master_port;
            const bool moved = place.master_addr != topology.master_addr || place.master_port != topology.master_port;
            if (moved) place.store_listen_fd.reset();
            if (moved) place.store_is_external = false;  // the launcher serves its own at the address that it gave
            return open_store(place, rendezvous, log);
          }};
}

}  // namespace cohort
