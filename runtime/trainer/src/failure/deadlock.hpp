// Ranks that wait for each other for ever: found from what each of them says that it is doing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <cohort/host/flight_recorder.hpp>

#include "failure/operations.hpp"

namespace cohort {

/// A rank all of whose threads wait, as it tells the others.
struct Waiting {
  std::vector<Operation> operations;      ///< that it is in
  std::map<std::string, uint64_t> begun;  ///< operations of each of its communicators
};

std::string to_text(const host::FlightRecorder::Standing& standing);
/// Nothing where a text is no such thing.
std::optional<Waiting> waiting_from(const std::string& text);

/// One sentence where it is certain that no rank can go on: each is in operations that need another one, which waits
/// elsewhere and has not come to them. Nothing where any rank may still move, and where what an operation needs is not
/// known (exchange, broadcast, reduce). As a rank counts its operations up and only leaves one that has ended, what the
/// ranks say may be of different moments.
std::optional<std::string> deadlock(const std::vector<Waiting>& ranks);

}  // namespace cohort
