#include <cohort/diagnosis/deadlock.hpp>

#include <algorithm>

#include <cohort/host/texts_by_rank.hpp>

namespace cohort {
namespace {

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

}  // namespace

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
