// Operations as ranks tell each other about them, and as they are written to flight-rank-N.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include <cohort/host/flight_recorder.hpp>

namespace cohort {

struct Operation {
  std::string communicator;
  uint64_t number = 0;  ///< of the communicator, from 1
  std::string call;     ///< equal on all ranks that call the same: "all_reduce mean of float32[1000]"
  std::string purpose;  ///< "bucket 2 (fc1.weight .. fc2.bias, 4 parameters)"
  std::string status;   ///< "OK", "running", "UNAVAILABLE", ...
  double begun = 0;     ///< seconds of the system's clock, to a few milliseconds
  double ended = 0;     ///< 0: running
  std::string name, dtype;
  uint64_t count = 0, bytes = 0;
  std::vector<int> peers;  ///< ranks that it waited for when it failed, if it knew them

  bool is_done() const { return status == "OK"; }
};

/// The last `most` operations of each communicator, oldest first.
std::vector<Operation> operations_of(const std::vector<host::FlightRecorder::Flight>& flights, size_t most);

/// False where the purpose is the operation itself, as that of a barrier.
bool has_purpose(const Operation& operation);

/// "all_reduce mean of float32[1000], #17 of default/world, for bucket 2 (...)"
std::string describe(const Operation& operation);

/// Returns them as they are written to flight-rank-N.json.
nlohmann::ordered_json flight_of(const std::vector<Operation>& operations);

}  // namespace cohort
