#include <cohort/host/plugin_host.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

#include <cohort/host/crash_report.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/host/spec.hpp>
#include <cohort/sdk/hash.hpp>

#include "given/given_struct.hpp"
#include "plugin_host/descriptor_checks.hpp"
#include "plugin_host/file_checks.hpp"
#include "plugin_host/plugin_search.hpp"
#include "plugin_host/process_traits.hpp"
#include "plugin_host/refuse.hpp"
#include "plugin_host/shared_library.hpp"

namespace cohort::host {

/// Copies a descriptor that has passed the checks, and its components of the kinds that this host knows, in the sizes
/// of this host's structs. The texts and tables behind its pointers stay the plugin's.
class FullDescriptor {
 public:
  explicit FullDescriptor(const cohort_plugin& given) : plugin_(sdk::own_copy(given)) {
    for (const cohort_component* const* it = given.components; *it; ++it) {
      if (is_known_kind((*it)->kind)) components_.push_back(sdk::own_copy(**it));
    }
    for (const cohort_component& component : components_) list_.push_back(&component);
    list_.push_back(nullptr);
    plugin_.components = list_.data();
  }
  FullDescriptor(const FullDescriptor&) = delete;
  FullDescriptor& operator=(const FullDescriptor&) = delete;

  const cohort_plugin& plugin() const { return plugin_; }

 private:
  cohort_plugin plugin_;
  std::deque<cohort_component> components_;
  std::vector<const cohort_component*> list_;
};

namespace {

namespace fs = std::filesystem;

constexpr const char* kAdviceOnHarm = "; ask its authors, or use another version";

const cohort_plugin& find_descriptor(const SharedLibrary& library, const fs::path& file) {
  const void* symbol = library.find(COHORT_PLUGIN_SYMBOL);
  if (symbol) {
    const fs::path home = library.foreign_home(symbol);
    if (home.empty()) return *static_cast<const cohort_plugin*>(symbol);
    refuse(file, "its symbol " COHORT_PLUGIN_SYMBOL " comes from '" + home.string() +
                     "', which it is linked to; define its own");
  }
  constexpr int kHighestMajor = 9;
  for (int major = 0; major <= kHighestMajor; ++major) {
    const std::string other = "cohort_plugin_" + std::to_string(major);
    if (!library.find(other.c_str())) continue;
    refuse(file, "it exports " + other +
                     " and not " COHORT_PLUGIN_SYMBOL ", which cohort " COHORT_VERSION
                     " looks for; rebuild it with the headers of cohort " COHORT_VERSION);
  }
  refuse(file, "it exports no symbol " COHORT_PLUGIN_SYMBOL "; build it with cohort_add_plugin()");
}

/// Returns a hash of the file, by which ranks see that they run the same plugins: 64 bits as 16 hex digits. It does not
/// protect against forgery. Throws PluginRefused if the file cannot be read.
std::string content_hash(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::array<char, 65536> block;
  sdk::Hash hash({fs::file_size(file)});
  while (in.read(block.data(), block.size()) || in.gcount() > 0) {
    hash.add(block.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (!in.eof()) refuse(file, "it cannot be read; check its permissions and the disk");
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash.value()));
  return digits.data();
}

std::string plugin_text(const fs::path& file) {
  return "plugin file '" + file.string() + "'";
}

void run_init(const cohort_plugin& plugin, HostObject& host, const fs::path& file) {
  if (!plugin.init) return;
  // The ABI's pointer is noexcept, through which an exception would end the program before any handler sees it.
  using MayThrow = cohort_status (*)(const cohort_host*);
  const MayThrow init = plugin.init;
  std::string thrown;
  try {
    const PluginCall call(host.log(), plugin_text(file), "init", PluginCall::Crash::kIsRefusal);
    const cohort_status status = init(host.get());
    if (status == COHORT_OK) return;
    refuse(file, "its init failed: " + host.take_message(status));
  } catch (const PluginRefused&) {
    throw;
  } catch (const std::exception& error) {
    thrown = in_quotes(error.what());
  } catch (...) {
    thrown = "an exception";
  }
  refuse(file, "its init threw " + thrown + "; functions of a plugin return a status and never throw");
}

struct OpenedPlugin {
  SharedLibrary library;
  const cohort_plugin* descriptor;
};

SharedLibrary load(const fs::path& file, Log& log) {
  const PluginCall call(log, plugin_text(file), "static constructors", PluginCall::Crash::kIsRefusal);
  return SharedLibrary(file);
}

const cohort_plugin& checked_descriptor(const SharedLibrary& library, const fs::path& file, Log& log) {
  const PluginCall call(log, plugin_text(file), "descriptor", PluginCall::Crash::kIsRefusal);
  const cohort_plugin& descriptor = find_descriptor(library, file);
  const std::string problem = descriptor_problem(descriptor, plugin_name_of(file));
  if (!problem.empty()) refuse(file, problem);
  return descriptor;
}

/// Loads and checks a plugin, and runs its init.
OpenedPlugin open_plugin(const fs::path& file, HostObject& host) {
  const ProcessTraits before;
  SharedLibrary library = load(file, host.log());
  const cohort_plugin& descriptor = checked_descriptor(library, file, host.log());
  run_init(descriptor, host, file);
  const std::string harm = ProcessTraits().harm_since(before);
  if (!harm.empty()) refuse(file, "it " + harm + " of the program while it is loaded or in its init" + kAdviceOnHarm);
  return {std::move(library), &descriptor};
}

void run_fini(const cohort_plugin& plugin, const fs::path& file, Log& log) {
  if (!plugin.fini) return;
  using MayThrow = void (*)();
  const MayThrow fini = plugin.fini;
  try {
    const PluginCall call(log, plugin_text(file), "fini");
    fini();
  } catch (...) {
    log.warning(plugin_text(file) + ": its fini threw an exception");
  }
}

void require_plugin_name(Kind kind, std::string_view name) {
  if (is_plugin_name(name)) return;
  throw UserError(in_quotes(name) + " is not the name of a " + std::string(to_string(kind)) +
                  "; names have the form [a-z][a-z0-9_-]{0,31}");
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kStrategy:
      return "strategy";
    case Kind::kCollective:
      return "collective";
    case Kind::kAccelerator:
      return "accelerator";
    case Kind::kLogger:
      return "logger";
  }
  return "component";
}

struct PluginHost::State {
  PluginSearch search;
  Log& log;
  HostObject plain_host;
  std::mutex mutex;  // of what follows
  std::vector<SharedLibrary> libraries;
  std::deque<FullDescriptor> descriptors;
  std::vector<LoadedPlugin> loaded;
  std::map<fs::path, std::string> refused;  // with the reason: harm that a plugin has done cannot be found again

  State(const PluginSearch& given, Log& log_) : search(checked_search(given)), log(log_), plain_host(log_) {}

  // The plugin with this name, opened if it is not yet; null where there is no such file.
  const LoadedPlugin* plugin(std::string_view name) {
    const auto known =
        std::ranges::find(loaded, name, [](const LoadedPlugin& plugin) { return plugin_name_of(plugin.file); });
    if (known != loaded.end()) return &*known;
    const auto file = find_plugin_file(search, name);
    if (!file) return nullptr;
    if (const auto before = refused.find(*file); before != refused.end()) throw PluginRefused(before->second);
    try {
      return &open(*file);
    } catch (const PluginRefused& error) {
      refused.emplace(*file, error.what());
      throw;
    }
  }

  /// Returns the plugin that has this component, or null. Any thread.
  const LoadedPlugin* plugin_of(const cohort_component& component) {
    const std::lock_guard lock(mutex);
    const auto has = [&](const LoadedPlugin& plugin) {
      return component_of(*plugin.descriptor, component.kind) == &component;
    };
    const auto found = std::ranges::find_if(loaded, has);
    return found == loaded.end() ? nullptr : &*found;
  }

  const LoadedPlugin& open(const fs::path& file) {
    check_plugin_file(file, log);
    std::string hash = content_hash(file);
    OpenedPlugin opened = open_plugin(file, plain_host);
    note_loaded_plugin(file, log);
    libraries.push_back(std::move(opened.library));
    loaded.push_back({file, &descriptors.emplace_back(*opened.descriptor).plugin(), std::move(hash)});
    for (const std::string& part : ignored_parts(*opened.descriptor)) {
      log.info("plugin file '" + file.string() + "' is for a newer cohort too, and this one leaves out " + part);
    }
    log.debug("opened plugin " + file.string() + ", version " + opened.descriptor->version);
    return loaded.back();
  }

  [[noreturn]] void refuse_unknown(Kind kind, std::string_view name) const {
    const std::string answer = kind == Kind::kStrategy ? answer_to_foreign_strategy(name) : "";
    if (!answer.empty()) throw UserError("there is no strategy " + in_quotes(name) + "; " + answer);
    if (const std::string way = way_to_build(search, name); !way.empty()) {
      throw UserError("there is no " + std::string(to_string(kind)) + " " + in_quotes(name) + ": " + way);
    }
    std::vector<std::string> names;
    for (const PluginFile& file : list_plugin_files(search)) {
      if (!file.shadowed) names.push_back(file.name);
    }
    const std::string nearest = nearest_name(name, names);
    throw UserError("there is no " + std::string(to_string(kind)) + " " + in_quotes(name) +
                    (nearest.empty() ? "; " : "; did you mean " + in_quotes(nearest) + "? ") + "cohort_" +
                    std::string(name) + ".so was looked for in" + search_trace(search));
  }

  [[noreturn]] void refuse_kind(Kind kind, std::string_view name, const LoadedPlugin& plugin) const {
    if (!plugin.descriptor->components[0]) {
      throw UserError("there is no " + std::string(to_string(kind)) + " " + in_quotes(name) + ": '" +
                      plugin.file.string() + "' holds nothing that this cohort knows; update cohort");
    }
    const auto other = static_cast<Kind>(plugin.descriptor->components[0]->kind);
    const std::string kind_text(to_string(other));
    throw UserError("there is no " + std::string(to_string(kind)) + " " + in_quotes(name) + ": '" +
                    plugin.file.string() + "' holds a " + kind_text + " of that name; use --" + kind_text + "=" +
                    std::string(name));
  }
};

PluginHost::PluginHost(PluginSearch search, Log& log) : state_(std::make_unique<State>(search, log)) {}

PluginHost::~PluginHost() {
  for (auto plugin = state_->loaded.rbegin(); plugin != state_->loaded.rend(); ++plugin) {
    run_fini(*plugin->descriptor, plugin->file, state_->log);
  }
}

const cohort_component& PluginHost::open(Kind kind, std::string_view name) {
  require_plugin_name(kind, name);
  const std::lock_guard lock(state_->mutex);
  const LoadedPlugin* plugin = state_->plugin(name);
  if (!plugin) state_->refuse_unknown(kind, name);
  const cohort_component* component = component_of(*plugin->descriptor, static_cast<int32_t>(kind));
  if (!component) state_->refuse_kind(kind, name, *plugin);
  return *component;
}

const cohort_component* PluginHost::find(Kind kind, std::string_view name) {
  require_plugin_name(kind, name);
  const std::lock_guard lock(state_->mutex);
  const LoadedPlugin* plugin = state_->plugin(name);
  return plugin ? component_of(*plugin->descriptor, static_cast<int32_t>(kind)) : nullptr;
}

std::string PluginHost::why_missing(std::string_view name, const std::string& otherwise) const {
  const std::string way = way_to_build(state_->search, name);
  return way.empty() ? otherwise : std::string(name) + ": " + way;
}

std::string PluginHost::version_of(const cohort_component& component) const {
  const LoadedPlugin* const plugin = state_->plugin_of(component);
  return plugin ? plugin->descriptor->version : "";
}

fs::path PluginHost::file_of(const cohort_component& component) const {
  const LoadedPlugin* const plugin = state_->plugin_of(component);
  return plugin ? plugin->file : fs::path();
}

std::span<const LoadedPlugin> PluginHost::loaded() const {
  return state_->loaded;
}

std::vector<PluginFile> PluginHost::available() const {
  return list_plugin_files(state_->search);
}

const cohort_host* PluginHost::plain_host() const {
  return state_->plain_host.get();
}

}  // namespace cohort::host
