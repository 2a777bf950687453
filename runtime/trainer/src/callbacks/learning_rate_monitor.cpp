#include <cohort/monitors.hpp>
#include <cohort/optimizers.hpp>

#include "callbacks/optimizer_label.hpp"

namespace cohort {

void LearningRateMonitor::on_step_values(Fit& fit, StepValues& values) {
  const Optimizers& optimizers = fit.optimizers();
  for (size_t i = 0; i < optimizers.size(); ++i) {
    auto& groups = optimizers[i].param_groups();
    const std::string base = label_of("lr", optimizers, i);
    for (size_t group = 0; group < groups.size(); ++group) {
      std::string name = base;
      if (groups.size() > 1) name += "/pg" + std::to_string(group);
      values.emplace_back(std::move(name), groups[group].options().get_lr());
    }
  }
}

}  // namespace cohort
