#include "selection/devices.hpp"

#include <algorithm>
#include <numeric>

#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/machine.hpp>
#include <cohort/host/uses.hpp>

#include "accelerator/accelerator.hpp"
#include "selection/installed.hpp"
#include "selection/names.hpp"
#include "selection/wording.hpp"

namespace cohort::host {
namespace {

/// Returns the library's place: a plugin may bring it in its own folder.
std::string torch_library(const std::filesystem::path& plugin, const char* name) {
  if (name == nullptr) return "";
  std::error_code error;
  const std::filesystem::path beside = plugin.parent_path() / name;
  return std::filesystem::exists(beside, error) ? beside.string() : name;
}

/// Returns the file that may bring captures: one for them alone, or the library that brings the devices.
std::string graphs_library(const std::filesystem::path& plugin, const TorchDeviceType& type) {
  std::error_code error;
  const std::filesystem::path beside = plugin.parent_path() / ("libcohort_graphs_" + type.name + ".so");
  return std::filesystem::exists(beside, error) ? beside.string() : type.library;
}

AcceleratorChoice examine(PluginHost& plugins, const cohort_component& component) {
  Accelerator accelerator(component, HostObject::of(plugins.plain_host()));
  AcceleratorChoice choice{.name = component.name, .device_type = accelerator.device_type()};
  choice.num_devices = accelerator.count_devices();
  choice.is_unlimited = choice.device_type == COHORT_DEVICE_CPU;
  choice.can_stage = accelerator.can_stage();
  const cohort_accelerator_vt& table = *accelerator.get()->vt;
  const std::filesystem::path file = plugins.file_of(component);
  choice.torch = {table.torch_device_type ? table.torch_device_type : "", choice.device_type,
                  torch_library(file, table.torch_library)};
  choice.torch.graphs = graphs_library(file, choice.torch);
  return choice;
}

/// Returns the accelerator if its plugin is installed, can be opened and finds a device; else adds the reason.
std::optional<AcceleratorChoice> find_devices(PluginHost& plugins, const std::string& name, std::string& reason) {
  if (!reason.empty()) reason += ", ";
  try {
    const cohort_component* component = plugins.find(Kind::kAccelerator, name);
    if (component == nullptr) {
      reason += plugins.why_missing(name, "there is no accelerator '" + name + "'");
      return std::nullopt;
    }
    AcceleratorChoice choice = examine(plugins, *component);
    if (choice.num_devices > 0) return choice;
    reason += "'" + name + "' finds no device";
  } catch (const Error& error) {
    reason += error.what();  // a machine without GPUs often lacks the libraries that their plugin needs
  }
  return std::nullopt;
}

/// Returns whether the plugin holds an accelerator with devices that may be chosen although nobody names it.
bool has_devices_unnamed(PluginHost& plugins, const std::string& name) {
  try {
    const cohort_component* component = plugins.find(Kind::kAccelerator, name);
    // An accelerator without LibTorch's name for its devices serves other programs than this one.
    return component != nullptr && static_cast<const cohort_accelerator_vt*>(component->vtable)->torch_device_type &&
           ask_accelerator(plugins, name, {.use = COHORT_USE_UNNAMED}).answer == COHORT_ANSWER_YES &&
           examine(plugins, *component).num_devices > 0;
  } catch (const Error&) {
    return false;
  }
}

/// Returns the accelerator of GPUs, or else the first other one that has devices. Adds to
/// `reason` why others are passed over.
std::optional<AcceleratorChoice> find_gpu(PluginHost& plugins, Scope scope, std::string& reason) {
  if (auto gpu = find_devices(plugins, kGpuAccelerator, reason)) return gpu;
  const std::vector<std::string> known{kGpuAccelerator, kFallbackAccelerator};
  const std::string other = first_installed(
      plugins, scope, known, [&](const std::string& name) { return has_devices_unnamed(plugins, name); });
  return other.empty() ? std::nullopt : find_devices(plugins, other, reason);
}

std::string range_text(const AcceleratorChoice& accelerator) {
  if (accelerator.num_devices == 0) return "this machine has none";
  return "this machine has " + counted(accelerator.num_devices, "device") + ", numbered from 0";
}

void check_present(const AcceleratorChoice& accelerator, int highest, const std::string& why) {
  if (accelerator.is_unlimited || highest < accelerator.num_devices) return;
  throw UserError(why + " needs " + accelerator.name + " device " + std::to_string(highest) + ", but " +
                  range_text(accelerator) + "; ask for fewer");
}

/// Returns the first `count` devices. `why` names who asked for so many.
std::vector<int> first_devices(const AcceleratorChoice& accelerator, int count, const std::string& why) {
  check_present(accelerator, count - 1, why);
  std::vector<int> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

/// Returns whether this rank sees fewer devices than there are ranks beside it, since the others' are hidden from it.
bool has_own_devices(const AcceleratorChoice& accelerator, const Topology& topology) {
  return topology.sees_own_devices && !accelerator.is_unlimited && accelerator.num_devices > 0 &&
         accelerator.num_devices < topology.local_world_size;
}

std::vector<int> all_devices(const AcceleratorChoice& accelerator, const std::string& why) {
  if (accelerator.is_unlimited) {
    throw UserError(why + " asks for all devices, but accelerator " + accelerator.name +
                    " has as many as are asked for; give a count, for example --devices=2");
  }
  if (accelerator.num_devices == 0) {
    throw UserError(why + " asks for all " + accelerator.name + " devices, but this machine has none; choose " +
                    "--accelerator=" + kFallbackAccelerator);
  }
  return first_devices(accelerator, accelerator.num_devices, why);
}

const cohort_component& open_named(PluginHost& plugins, const Options& options, const std::string& name) {
  try {
    return plugins.open(Kind::kAccelerator, name);
  } catch (const UserError& error) {
    throw UserError(place_of(options, "accelerator") + ": " + error.what());
  }
}

AcceleratorChoice choose_named(PluginHost& plugins, const Options& options) {
  const std::string& name = options.accelerator;
  AcceleratorChoice choice = examine(plugins, open_named(plugins, options, name));
  if (choice.num_devices > 0 || choice.is_unlimited) return choice;
  throw UserError(place_of(options, "accelerator") + ": '" + name +
                  "' finds no device on this machine; choose another one, or auto");
}

}  // namespace

AcceleratorChoice choose_accelerator(PluginHost& plugins, const Options& options) {
  if (options.older_spellings.contains("devices") && options.accelerator == kFallbackAccelerator) {
    throw UserError(place_of(options, "devices") + " asks for GPUs, which contradicts " +
                    place_of(options, "accelerator") + "=" + options.accelerator +
                    "; write --devices for devices of it");
  }
  std::string reason;
  if (options.accelerator == kGpuAlias) {
    if (auto gpu = find_gpu(plugins, Scope::kAll, reason)) return *gpu;
    throw UserError(place_of(options, "accelerator") + ": " + reason +
                    "; install the accelerator of this machine's devices, or choose auto");
  }
  if (options.accelerator != "auto") return choose_named(plugins, options);
  if (auto gpu = find_gpu(plugins, Scope::kAdded, reason)) {
    gpu->reason = counted(gpu->num_devices, "device") + " found";
    return *gpu;
  }
  AcceleratorChoice choice = examine(plugins, plugins.open(Kind::kAccelerator, kFallbackAccelerator));
  choice.reason = reason;
  return choice;
}

std::vector<int> devices_of_ranks(const AcceleratorChoice& accelerator, const Topology& topology) {
  if (has_own_devices(accelerator, topology)) return std::vector(static_cast<size_t>(topology.local_world_size), 0);
  return first_devices(accelerator, topology.local_world_size, decided_by(topology, "local_world_size"));
}

std::vector<int> choose_devices(const AcceleratorChoice& accelerator, const Options& options,
                                const Topology& topology) {
  const Devices& devices = options.devices;
  const std::string why = place_of(options, "devices");
  const bool is_one_each = devices.kind == Devices::Kind::kCount && devices.count == topology.local_world_size;
  if (has_own_devices(accelerator, topology) && (is_one_each || devices.kind == Devices::Kind::kAll)) {
    return devices_of_ranks(accelerator, topology);
  }
  switch (devices.kind) {
    case Devices::Kind::kAll:
      return all_devices(accelerator, why);
    case Devices::Kind::kCount:
      if (accelerator.is_unlimited) check_workers(devices.count, why, "devices");
      return first_devices(accelerator, devices.count, why);
    case Devices::Kind::kIds:
      if (accelerator.is_unlimited) {
        check_workers(static_cast<int64_t>(devices.ids.size()), why, "devices");
        return first_devices(accelerator, static_cast<int>(devices.ids.size()), why);
      }
      check_present(accelerator, *std::max_element(devices.ids.begin(), devices.ids.end()), why);
      return devices.ids;
    case Devices::Kind::kNames:
      if (accelerator.device_type != COHORT_DEVICE_CUDA) {
        throw UserError(why + " names GPUs, but the accelerator is " + accelerator.name +
                        "; give a count or ids of its devices");
      }
      return first_devices(accelerator, static_cast<int>(devices.names.size()), why);
    case Devices::Kind::kDefault:
      break;
  }
  if (topology.launcher != Launcher::kNone) return devices_of_ranks(accelerator, topology);
  return first_devices(accelerator, accelerator.is_unlimited ? 1 : accelerator.num_devices, why);
}

std::vector<int> one_device_each(const AcceleratorChoice& accelerator, const Options& options, const Topology& topology,
                                 const std::string& strategy) {
  const std::string decided = decided_by(topology, "local_world_size");
  const Devices& devices = options.devices;
  if (is_given(options, "devices") && (devices.kind != Devices::Kind::kCount || devices.count != 1)) {
    throw UserError(place_of(options, "devices") + " contradicts " + decided + ": with strategy " + strategy +
                    " each process has one device, and the driver says how many there are; leave the flag out, or " +
                    "start more processes");
  }
  return devices_of_ranks(accelerator, topology);
}

}  // namespace cohort::host
