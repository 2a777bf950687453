#include "host_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "../rendezvous/rendezvous.hpp"
#include "../session/host_step_driver.hpp"

namespace cohort {
namespace {

constexpr std::chrono::seconds kConnectTimeout{60};

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

class HostRanks final : public Ranks {
 public:
  explicit HostRanks(host::RankSetup setup) : rank_(std::move(setup)) {}

  void connect() override { rank_.connect(); }
  void shutdown() override { rank_.shutdown(); }

  void barrier() override { rank_.barrier(); }
  void all_reduce(std::span<double> values, int32_t reduce) override { rank_.all_reduce(values, reduce); }
  void broadcast(std::span<std::byte> data, int root) override { rank_.broadcast(data, root); }
  std::vector<std::string> all_gather(std::string_view text) override { return rank_.all_gather(text); }
  bool is_same_on_all_ranks(uint64_t value, const std::string& purpose) override {
    return rank_.is_same_on_all_ranks(value, purpose);
  }
  void agree(const std::string& topic, std::string_view text, std::string_view problem) override {
    rank_.agree(topic, text, problem);
  }
  std::unique_ptr<StepDriver> make_driver(Runtime& runtime, std::span<torch::nn::Module* const> replicas,
                                          Optimizers optimizers, UnroundedWeights unrounded) override {
    return make_host_step_driver(runtime, rank_, replicas, std::move(optimizers), std::move(unrounded));
  }

  uint64_t bytes_sent() const override { return rank_.bytes_sent(); }
  std::string collective() const override { return rank_.collective_name(); }
  std::vector<std::string> layers() const override { return rank_.layer_names(); }
  host::RankRuntime& rank_runtime() override { return rank_; }
  void observe(host::FlightObserver* observer) override { rank_.observe(observer); }

 private:
  host::RankRuntime rank_;
};

}  // namespace

std::unique_ptr<Ranks> make_host_ranks(const Runtime::Setup& setup, const host::Topology& place,
                                       host::DevicePort* devices) {
  return std::make_unique<HostRanks>(rank_setup(setup, place, devices));
}

}  // namespace cohort
