#include "fake_runtime.hpp"

#include <algorithm>
#include <utility>

#include <cohort/host/rank.hpp>

#include "scripted_driver.hpp"

namespace cohort::testing {
namespace {

class ScriptedRank final : public host::Rank {
 public:
  explicit ScriptedRank(Script& script) : script_(script) {}

  void connect() override {}
  void shutdown() override {}

  void barrier() override {}
  void all_reduce(std::span<double> values, int32_t reduce) override { script_.all_reduce_numbers(values, reduce); }
  void broadcast(std::span<std::byte>, int) override {}
  std::vector<std::string> all_gather(std::string_view text) override { return script_.all_gather(std::string(text)); }
  bool is_same_on_all_ranks(uint64_t, const std::string&) override { return true; }
  void agree(const std::string&, std::string_view, std::string_view) override {}

  uint64_t bytes_sent() const override {
    return 100 * static_cast<uint64_t>(std::ranges::count(script_.calls, std::string("step")));
  }
  std::string collective() const override { return "wire"; }
  std::vector<std::string> layers() const override { return {"base", "top"}; }
  void observe(host::FlightObserver* observer) override { script_.observer = observer; }

 private:
  Script& script_;
};

}  // namespace

ScriptedRun::ScriptedRun(const std::function<void(Script&)>& set) {
  script_.selection.strategy = StrategySpec("scripted");
  script_.options.num_sanity_val_steps = 0;  // tests count the validations of a training
  set(script_);
  log_ = std::make_unique<host::Log>(script_.log);
  plugins_ = std::make_unique<host::PluginHost>(host::PluginSearch{}, *log_);
  runtime_ =
      std::make_unique<Runtime>(Runtime::Setup{script_.options, *plugins_, script_.selection, script_.topology, *log_},
                                std::make_unique<ScriptedRank>(script_),
                                [this](Runtime& runtime, std::span<torch::nn::Module* const> replicas,
                                       Optimizers optimizers, UnroundedWeights /*unrounded*/) {
                                  return make_scripted_driver(runtime, script_, replicas, std::move(optimizers));
                                });
}

int ScriptedRun::count(const std::string& word) const {
  return static_cast<int>(std::count_if(script_.calls.begin(), script_.calls.end(),
                                        [&](const std::string& call) { return call.starts_with(word); }));
}

}  // namespace cohort::testing
