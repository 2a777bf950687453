#include "strategies_text.hpp"

#include <cohort/host/uses.hpp>

#include "table.hpp"

namespace cohort::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string cell_text(const Json& cell) {
  if (cell.is_null()) return "-";
  return cell.is_object() ? "no" : "yes";
}

Table overview(const Json& entries) {
  Table table{{"strategy", "state", "spread"}};
  for (const host::UseText& use : host::uses()) table.front().emplace_back(use.name);
  for (const Json& entry : entries) {
    std::vector<std::string> row{entry["name"], entry["state"], entry["spread"]};
    for (const host::UseText& use : host::uses()) {
      row.push_back(entry.contains("uses") ? cell_text(entry["uses"][std::string(use.name)]) : "-");
    }
    table.push_back(std::move(row));
  }
  return table;
}

Table legend() {
  Table table{
      {"spread", "processes x replicas on a node with k devices, and x parts of the model if there are several"}};
  for (const host::UseText& use : host::uses()) {
    table.push_back({std::string(use.name), "it can " + std::string(use.meaning)});
  }
  table.push_back(
      {"-", "nobody says: no accelerator for it, or the plugin does not answer, and then it is not refused"});
  return table;
}

/// Rows of {names, what, text}; equal texts of several strategies in one row.
class Remarks {
 public:
  void add(const std::string& name, const std::string& what, const std::string& text) {
    for (auto& row : rows_) {
      if (row[1] != what || row[2] != text) continue;
      row[0] += ", " + name;
      return;
    }
    rows_.push_back({name, what, text});
  }
  const Table& rows() const { return rows_; }

 private:
  Table rows_;
};

Table remarks(const Json& entries) {
  Remarks remarks;
  for (const Json& entry : entries) {
    const std::string name = entry["name"];
    if (entry.contains("problem")) remarks.add(name, "broken", entry["problem"]);
    if (!entry.contains("uses")) continue;
    for (const auto& [use, cell] : entry["uses"].items()) {
      if (!cell.is_object()) continue;
      remarks.add(name, "no " + use, cell["why"].get<std::string>() + "; " + cell["fix"].get<std::string>());
    }
    if (entry["advice"] != "") remarks.add(name, "mind", entry["advice"]);
  }
  return remarks.rows();
}

}  // namespace

std::string strategies_text(const Json& entries) {
  return table_text(overview(entries), "") + "\n" + table_text(legend(), "") + "\n" + table_text(remarks(entries), "");
}

}  // namespace cohort::cli
