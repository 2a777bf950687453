#include "loop/resume_settings.hpp"

#include <ATen/ops/tensor.h>

#include "metrics/number_text.hpp"

namespace cohort {
namespace {

/// Returns the rates of the groups that a schedule begins with; null if the optimizer had none.
at::Tensor* initial_rates(TensorIndex& state, size_t phase, size_t groups) {
  const auto found = state.find(std::string(kCallbackSection) + "/schedules/" + std::to_string(phase) + ".initial");
  if (found == state.end()) return nullptr;
  at::Tensor& rates = found->second;
  const bool fits = rates.scalar_type() == at::kDouble && rates.numel() == static_cast<int64_t>(groups);
  return fits ? &rates : nullptr;
}

std::string line_of(ResumeSettings which, const std::string& setting, double saved, double own) {
  if (which == ResumeSettings::kProgram) {
    return setting + " " + number_text(own) + " of the program replaces " + number_text(saved) + " of the checkpoint";
  }
  return setting + " " + number_text(saved) + " of the checkpoint replaces " + number_text(own) +
         " of the program; --resume-settings=program keeps the program's";
}

/// Returns "lr", with the optimizer and the group if there are several.
std::string name_of(const std::string& option, size_t phase, size_t phases, size_t group, size_t groups) {
  return option + (phases > 1 ? " of optimizer " + std::to_string(phase) : "") +
         (groups > 1 ? (phases > 1 ? ", group " : " of group ") + std::to_string(group) : "");
}

}  // namespace

std::set<std::string> settle_settings(ResumeSettings which, const std::vector<OptimizerSettings>& own,
                                      const std::vector<bool>& scheduled, LoadedCheckpoint& checkpoint) {
  std::set<std::string> lines;
  for (size_t phase = 0; phase < own.size(); ++phase) {
    auto& saved = checkpoint.manifest.optimizers.at(phase).groups;
    const auto& groups = own[phase].groups;
    at::Tensor* const initial = scheduled.at(phase) ? initial_rates(checkpoint.tensors, phase, groups.size()) : nullptr;
    std::vector<double> rates;
    for (size_t group = 0; group < groups.size(); ++group) {
      for (const auto& [option, value] : groups[group].options) {
        const bool is_scheduled = initial && option == "lr";
        double& kept = saved.at(group).options[option];
        const double before = is_scheduled ? initial->const_data_ptr<double>()[group] : kept;
        if (before != value)
          lines.insert(line_of(which, name_of(option, phase, own.size(), group, groups.size()), before, value));
        if (which == ResumeSettings::kProgram) kept = value;
        if (option == "lr") rates.push_back(value);
      }
    }
    if (which == ResumeSettings::kProgram && initial && rates.size() == groups.size()) {
      *initial = at::tensor(rates, at::kDouble);
    }
  }
  return lines;
}

}  // namespace cohort
