// A slot called on the top of a strategy of four layers that leave it to `base`, against the same slot of `base` alone.
#include <benchmark/benchmark.h>

#include <cohort/host/host_object.hpp>
#include <cohort/host/log.hpp>
#include <cohort/host/strategy_layers.hpp>

namespace {

using namespace cohort::host;

cohort_strategy_vt answering_base() {
  cohort_strategy_vt base{};
  base.struct_size = sizeof(base);
  base.begin_step = [](cohort_strategy*, const cohort_step*) noexcept -> cohort_status { return COHORT_OK; };
  return base;
}

void dispatch(benchmark::State& state) {
  cohort_strategy_vt layer{};
  layer.struct_size = sizeof(layer);
  std::vector<LayerBlueprint> blueprints;
  for (int64_t i = 0; i < state.range(0); ++i) blueprints.push_back({"layer" + std::to_string(i), &layer, {}, ""});
  Log log(LogSettings{});
  HostObject host(log);
  const StrategyLayers layers(std::move(blueprints), answering_base(), nullptr, host);
  cohort_strategy* top = layers.top();
  const cohort_step step{};
  for ([[maybe_unused]] const auto _ : state) {
    benchmark::DoNotOptimize(top);
    benchmark::DoNotOptimize(top->vt->begin_step(top, &step));
  }
}
BENCHMARK(dispatch)->ArgName("layers")->Arg(0)->Arg(4);

}  // namespace

BENCHMARK_MAIN();
