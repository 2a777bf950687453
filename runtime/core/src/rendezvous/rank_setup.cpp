#include "rank_setup.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "rendezvous.hpp"

namespace cohort {
namespace {

constexpr std::chrono::seconds kConnectTimeout{60};

}  // namespace

host::RankSetup rank_setup(const Runtime::Setup& setup, const host::Topology& topology, host::DevicePort* devices) {
  const auto connect_timeout = std::min<std::chrono::nanoseconds>(setup.options.timeout, kConnectTimeout);
  Rendezvous rendezvous{.is_insecure = setup.options.insecure, .timeout = connect_timeout};
  if (const auto secret = host::job_secret(host::process_environment())) rendezvous.secret = secret->key();
  return {.plugins = setup.plugins,
          .selection = setup.selection,
          .topology = topology,
          .log = setup.log,
          .timeout = setup.options.timeout,
          .connect_timeout = connect_timeout,
          .bucket_size = setup.options.bucket_size,
          .autotune_file = setup.options.autotune,
          .deterministic = setup.options.deterministic,
          .options_text = host::text_across_ranks(setup.options),
          .secret = rendezvous.secret,
          .device_port = devices,
          .open_store = [topology, rendezvous, &log = setup.log](const cohort_dist_args& args) {
            host::Topology place = topology;  // with what layers have changed
            place.master_addr = args.master_addr ? args.master_addr : "";
            place.master_port = args.master_port;
            const bool moved = place.master_addr != topology.master_addr || place.master_port != topology.master_port;
            if (moved) place.store_listen_fd.reset();
            return open_store(place, rendezvous, log);
          }};
}

}  // namespace cohort
