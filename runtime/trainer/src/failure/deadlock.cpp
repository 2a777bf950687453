#include "failure/deadlock.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <cohort/host/in_quotes.hpp>
#include <cohort/host/texts_by_rank.hpp>

#include "files/json_fields.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

bool needs_all_its_ranks(const Operation& operation) {
  constexpr const char* kAll[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "split"};
  return std::ranges::find(kAll, operation.name) != std::end(kAll);
}

// Returns whether another rank of the communicator has not begun this operation.
bool lacks_a_rank(const Operation& operation, const std::vector<Waiting>& ranks) {
  return needs_all_its_ranks(operation) && std::ranges::any_of(ranks, [&](const Waiting& rank) {
           const auto begun = rank.begun.find(operation.communicator);
           return begun != rank.begun.end() && begun->second < operation.number;
         });
}

std::string places(const Waiting& rank) {
  std::string text;
  for (const Operation& one : rank.operations) text += (text.empty() ? "" : " and ") + describe(one);
  return text;
}

Operation operation_from(const Json& json) {
  const auto line = [&json](const char* field) {
    return host::on_one_line(json.at(field).get_ref<const std::string&>());
  };
  Operation operation;
  operation.communicator = line("communicator");
  operation.number = whole_field<uint64_t>(json, "number");
  operation.name = line("operation");
  operation.call = line("call");
  operation.purpose = line("purpose");
  return operation;
}

}  // namespace

std::string to_text(const host::FlightRecorder::Standing& standing) {
  Json operations = Json::array();
  for (const Operation& one : operations_of(standing.running, 1)) {
    operations.push_back({{"communicator", one.communicator},
                          {"number", one.number},
                          {"operation", one.name},
                          {"call", one.call},
                          {"purpose", one.purpose}});
  }
  Json begun = Json::object();
  for (const auto& [name, number] : standing.begun) begun[name] = number;
  const Json json{{"operations", operations}, {"begun", begun}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Waiting> waiting_from(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Waiting rank;
    for (const auto& one : json.at("operations")) rank.operations.push_back(operation_from(one));
    for (const auto& [name, number] : json.at("begun").items())
      rank.begun[name] = whole_field<uint64_t>(json.at("begun"), name.c_str());
    return rank;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<std::string> deadlock(const std::vector<Waiting>& ranks) {
  const auto is_stuck = [&](const Waiting& rank) {
    return !rank.operations.empty() &&
           std::ranges::all_of(rank.operations, [&](const Operation& one) { return lacks_a_rank(one, ranks); });
  };
  if (!std::ranges::all_of(ranks, is_stuck)) return std::nullopt;
  std::vector<std::string> calls;
  for (const Waiting& rank : ranks) calls.push_back(places(rank));
  return "ranks wait for each other in different operations: " + host::texts_by_rank(calls, " called ") +
         "; let every rank call the same operations in the same order";
}

}  // namespace cohort
