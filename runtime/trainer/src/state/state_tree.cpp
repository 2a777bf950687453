#include "state/state_tree.hpp"

#include <algorithm>
#include <array>

#include <ATen/ops/scalar_tensor.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

constexpr std::string_view kOfTheRun = "cohort.", kOfOptimizers = "optimizer.";

struct Section {
  std::string_view name;
  StatePolicy policy;
};
// All other entries of a run have kRank.
constexpr std::array kSections{Section{kCallbackSection, StatePolicy::kShared},
                               Section{kModuleSection, StatePolicy::kCompared},
                               Section{kTiedSection, StatePolicy::kTied},
                               Section{kMeanSection, StatePolicy::kMean},
                               Section{kValidatedSection, StatePolicy::kValidated},
                               Section{kTrainedSection, StatePolicy::kTrained},
                               Section{kLayerBufferSection, StatePolicy::kStrategy},
                               Section{kLayerValueSection, StatePolicy::kStrategy},
                               Section{kEpochSection, StatePolicy::kAdded},
                               Section{kMetricStateSection, StatePolicy::kAdded}};

}  // namespace

StatePolicy policy_of(std::string_view name) {
  if (name.starts_with(kOfOptimizers)) return StatePolicy::kOptimizer;
  if (!name.starts_with(kOfTheRun)) return StatePolicy::kModel;
  const size_t end = name.find('/');
  const auto section = end == std::string_view::npos ? "" : name.substr(0, end);
  const auto found = std::ranges::find(kSections, section, &Section::name);
  return found == kSections.end() ? StatePolicy::kRank : found->policy;
}

bool is_of_the_run(std::string_view name) {
  const StatePolicy policy = policy_of(name);
  return policy != StatePolicy::kModel && policy != StatePolicy::kTrained && policy != StatePolicy::kOptimizer;
}

std::string trained_name(std::string_view parameter) {
  return std::string(kTrainedSection) + "/" + std::string(parameter);
}

void StateWriter::put(std::string_view name, at::Tensor tensor) const {
  tensors_.emplace_back(path_ + std::string(name), std::move(tensor));
}

void StateWriter::put(std::string_view name, double number) const {
  put(name, at::scalar_tensor(number, at::kDouble));
}

const at::Tensor& StateReader::at(std::string_view name) const {
  if (const at::Tensor* const found = find(name)) return *found;
  throw UserError(file_ + " lacks " + host::in_quotes(path_ + std::string(name)) + "; resume from another checkpoint");
}

const double* StateReader::numbers(std::string_view name, int64_t count) const {
  const at::Tensor& tensor = at(name);
  if (tensor.scalar_type() == at::kDouble && tensor.numel() == count) return tensor.const_data_ptr<double>();
  throw UserError(file_ + " does not hold numbers in " + host::in_quotes(path_ + std::string(name)) +
                  "; resume from another checkpoint");
}

NamedTensors StateReader::tensors() const {
  NamedTensors found;
  for (auto entry = tensors_.lower_bound(path_); entry != tensors_.end() && entry->first.starts_with(path_); ++entry) {
    found.emplace_back(entry->first.substr(path_.size()), entry->second);
  }
  return found;
}

CallbackState StateReader::values() const {
  CallbackState values;
  for (const auto& [name, tensor] : tensors()) values.set(name, tensor);
  return values;
}

Metrics StateReader::metrics() const {
  Metrics metrics;
  for (const auto& [name, tensor] : tensors()) metrics[name] = *numbers(name, 1);
  return metrics;
}

std::vector<std::string> StateReader::sections() const {
  std::vector<std::string> sections;
  for (const auto& [name, tensor] : tensors()) {
    const size_t end = name.find('/');
    if (end == std::string::npos) continue;
    std::string section = name.substr(0, end);
    if (sections.empty() || sections.back() != section) sections.push_back(std::move(section));
  }
  return sections;
}

void erase_section(NamedTensors& tensors, std::string_view section) {
  const std::string path = std::string(section) + "/";
  std::erase_if(tensors, [&](const auto& entry) { return entry.first.starts_with(path); });
}

}  // namespace cohort
