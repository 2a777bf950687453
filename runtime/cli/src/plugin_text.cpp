#include "plugin_text.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "table.hpp"

namespace cohort::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& object, const char* key) {
  return object.value(key, std::string());
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string joined(const Json& list) {
  std::string all;
  for (const Json& item : list) all += (all.empty() ? "" : ", ") + item.get<std::string>();
  return all;
}

/// "2 x NVIDIA H100 80GB HBM3 (81559 MiB)", for each kind of them.
std::string devices_text(const Json& component) {
  if (component.contains("devices_problem")) return "unknown: " + first_line(text(component, "devices_problem"));
  std::vector<std::pair<Json, int>> kinds;
  for (const Json& device : component["devices"]) {
    if (kinds.empty() || kinds.back().first != device) kinds.emplace_back(device, 0);
    ++kinds.back().second;
  }
  std::string all;
  for (const auto& [device, count] : kinds) {
    all += (all.empty() ? "" : ", ") + std::to_string(count) + " x " + text(device, "name") + " (" +
           std::to_string(device["memory_bytes"].get<uint64_t>() >> 20) + " MiB)";
  }
  return all.empty() ? "0 on this machine" : all;
}

std::string component_text(const Json& component) {
  std::string out =
      "\n" + text(component, "kind") + " " + text(component, "name") + ": " + text(component, "summary") + "\n";
  Table facts;
  if (component.contains("inherits")) {
    const std::string parent = text(component, "inherits");
    facts.push_back({"inherits", parent == "*" ? "* (a free layer, for any strategy)" : parent});
  }
  if (!component["variants"].empty())
    facts.push_back({"variants", joined(component["variants"]) + " (first: default)"});
  if (component.contains("sums")) {
    const Json& sums = component["sums"];
    const std::string order = sums["rank_ordered"] ? "left to right in rank order" : "in an order of its own";
    const auto is_of_sums = [](const Json& option) { return option["key"] == "sums"; };
    const bool is_chosen = std::ranges::any_of(component["options"], is_of_sums);
    const std::string unclaimed = is_chosen ? "as the option sums says" : "in 16 bits";
    const std::string rounding = sums["rounds_once"] ? "in float32, rounded once" : unclaimed;
    facts.push_back({"sums", order + "; 16-bit types " + rounding});
  }
  if (component.contains("devices")) facts.push_back({"devices", devices_text(component)});
  out += table_text(facts, "  ");
  if (!component["options"].empty()) {
    Table options{{"option", "type", "default", "help"}};
    for (const Json& option : component["options"]) {
      options.push_back({text(option, "key"), text(option, "type"), text(option, "default"), text(option, "help")});
    }
    out += table_text(options, "  ");
  }
  if (component.contains("slots")) {
    Table slots{{"slot", "filled by"}};
    for (const auto& [slot, layer] : component["slots"].items()) slots.push_back({slot, layer.get<std::string>()});
    out += table_text(slots, "  ");
  }
  return out;
}

}  // namespace

std::string list_text(const Json& entries) {
  if (entries.empty()) return "no plugin is installed\n";
  Table table;
  for (const Json& entry : entries) {
    if (entry.contains("problem")) {
      table.push_back({text(entry, "name"), "-", "-", "cannot be used: " + first_line(text(entry, "problem"))});
      continue;
    }
    for (const Json& component : entry["components"]) {
      table.push_back(
          {text(entry, "name"), text(component, "kind"), text(entry, "version"), text(component, "summary")});
    }
  }
  return table_text(table, "");
}

std::string info_text(const Json& report) {
  Table facts;
  for (const char* key : {"file", "id", "version", "vendor", "license", "abi", "hash"}) {
    facts.push_back({key, text(report, key)});
  }
  std::string out = table_text(facts, "");
  for (const Json& component : report["components"]) out += component_text(component);
  return out;
}

}  // namespace cohort::cli
