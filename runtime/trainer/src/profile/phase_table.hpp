// The times of a training by phase, of one rank and as the table of all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cohort {

struct PhaseTime {
  std::string name;
  uint64_t count = 0;
  double seconds = 0;
  bool is_callback = false;
  bool operator==(const PhaseTime&) const = default;
};

struct PhaseTimes {
  uint64_t steps = 0;
  std::vector<PhaseTime> phases;  ///< in the order of the table; together they are the loop
  bool operator==(const PhaseTimes&) const = default;
};

/// Returns the times as a message to other ranks.
std::string to_text(const PhaseTimes& times);
/// Returns the times of such a message. Throws PeerFailed if it cannot be read.
PhaseTimes parse_phase_times(const std::string& text);

/// Returns the table of all ranks' times: those of rank 0, and with several ranks the least and the most of all.
/// Phases that no rank has come to are left out; callbacks that take less than a thousandth of every rank's loop share
/// a row.
std::string phase_table(std::vector<PhaseTimes> ranks);

}  // namespace cohort
