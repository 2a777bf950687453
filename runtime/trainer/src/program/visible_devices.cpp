#include "program/visible_devices.hpp"

#include <cstdlib>
#include <numeric>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char* kShown = "COHORT_DEVICES_SHOWN";  // set by the process that has set the other one for this rank

std::string variable(const host::Variables& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ",") + text;
  return all;
}

std::string joined(const std::vector<int>& ids) {
  std::vector<std::string> texts;
  for (const int id : ids) texts.push_back(std::to_string(id));
  return joined(texts);
}

bool is_visible(const std::string& name, const std::string& visible) {
  return ("," + visible + ",").find("," + name + ",") != std::string::npos;
}

}  // namespace

std::map<std::string, std::string> variables_of_devices(const host::Selection& selection,
                                                        const host::Variables& variables) {
  if (selection.torch.device_type != COHORT_DEVICE_CUDA || !variable(variables, kVisible).empty()) return {};
  return {{kVisible, joined(selection.device_ids)}, {kShown, "1"}};
}

Devices seen_devices(Devices devices, const host::Variables& variables) {
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
  if (devices.kind == Devices::Kind::kIds && !variable(variables, kShown).empty()) {
    std::iota(devices.ids.begin(), devices.ids.end(), 0);
  }
  if (devices.kind != Devices::Kind::kNames) return devices;
  const std::string visible = variable(variables, kVisible);
  for (const std::string& name : devices.names) {
    if (visible.empty() || is_visible(name, visible)) continue;
    throw UserError("--devices asks for " + name + ", which " + kVisible + "=" + visible +
                    " leaves out; unset the variable, or ask for what it has");
  }
  ::setenv(kVisible, joined(devices.names).c_str(), /*overwrite=*/1);
  return devices;
}

// The larger of the two settings that cuBLAS's documentation gives for this.
void make_cublas_deterministic() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

std::string line_of_devices(const host::Selection& selection, const host::Topology& topology,
                            const host::Variables& variables) {
  const std::string visible = variable(variables, kVisible);
  return "LOCAL_RANK: " + std::to_string(topology.local_rank) + " - " + kVisible + ": [" +
         (visible.empty() ? joined(selection.device_ids) : visible) + "]";
}

}  // namespace cohort
