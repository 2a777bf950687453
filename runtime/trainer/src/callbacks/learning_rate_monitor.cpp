#include <cohort/monitors.hpp>
#include <cohort/optimizers.hpp>

namespace cohort {
namespace {

std::string name_of(const Optimizers& optimizers, size_t optimizer) {
  if (!optimizers.name(optimizer).empty()) return "lr-" + optimizers.name(optimizer);
  return optimizers.size() == 1 ? "lr" : "lr-" + std::to_string(optimizer);
}

}  // namespace

void LearningRateMonitor::on_step_values(Fit& fit, StepValues& values) {
  const Optimizers& optimizers = fit.optimizers();
  for (size_t i = 0; i < optimizers.size(); ++i) {
    auto& groups = optimizers[i].param_groups();
    const std::string base = name_of(optimizers, i);
    for (size_t group = 0; group < groups.size(); ++group) {
      std::string name = base;
      if (groups.size() > 1) name += "/pg" + std::to_string(group);
      values.emplace_back(std::move(name), groups[group].options().get_lr());
    }
  }
}

}  // namespace cohort
