#include "selection/wording.hpp"

#include "options/flag_table.hpp"

namespace cohort::host {

std::string place_of(const Options& options, const std::string& flag) {
  if (const auto old = options.older_spellings.find(flag); old != options.older_spellings.end()) return old->second;
  switch (options.origin(flag)) {
    case Origin::kEnvironment:
      return variable_of(flag);
    case Origin::kConfig:
      return flag + " in the config file";
    case Origin::kCode:
      return flag + " in the program";
    case Origin::kFlag:
    case Origin::kDefault:
      break;
  }
  return "--" + flag;
}

bool is_given(const Options& options, std::string_view flag) {
  const Origin origin = options.origin(flag);
  return origin != Origin::kDefault && origin != Origin::kCode;
}

std::string decided_by(const Topology& topology, const std::string& field) {
  const auto found = topology.decided_by.find(field);
  const std::string launcher(to_string(topology.launcher));
  return found == topology.decided_by.end() ? launcher : found->second + " (" + launcher + ")";
}

std::string counted(int count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace cohort::host
