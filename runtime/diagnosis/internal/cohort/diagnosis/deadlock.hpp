// Finds a deadlock of ranks, from what each rank reports about the operations that it is in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <cohort/diagnosis/operations.hpp>

namespace cohort {

/// The report of a rank in which all threads wait.
struct Waiting {
  std::vector<Operation> operations;      ///< the operations that it is in
  std::map<std::string, uint64_t> begun;  ///< number of operations begun, by communicator
};

/// Returns a sentence about the deadlock if it is certain that no rank can continue: every operation that a rank is in
/// needs another rank, which has not begun it and waits in another one. Returns nothing if any rank may still continue,
/// or is in an operation whose needs are not known (exchange, broadcast, reduce). `ranks` has a report for every rank.
/// The reports may be of different moments, because the number of operations begun only grows and a rank leaves an
/// operation only when it has ended.
std::optional<std::string> deadlock(const std::vector<Waiting>& ranks);

}  // namespace cohort
