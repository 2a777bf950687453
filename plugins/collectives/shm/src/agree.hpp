// Small things that all ranks of a channel tell each other: records, and whether a step worked on every rank.
#pragma once

#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "channel.hpp"

namespace cohort::shm {

/// What became of a rank's part of a common step.
struct Outcome {
  cohort_status status;
  char message[256];
};

/// Runs a rank's part of a common step; an error becomes an outcome, as the other ranks must hear of it.
Outcome outcome_of(const std::function<void()>& part);

/// An outcome that came as bytes: its text ends, and a status that there is not becomes COHORT_DATA_LOSS.
Outcome heard(Outcome outcome);

/// Throws AgreedError with the first failure, naming its rank.
void require_success(const std::vector<Outcome>& outcomes);

/// Every rank's record, by rank. `call` is compared as usual.
template <class Record>
std::vector<Record> gather(Channel& channel, const Call& call, const Record& record) {
  static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) <= kHalfBytes);
  std::memcpy(channel.control().offered(channel.rank(), channel.barrier() + 1), &record, sizeof record);
  channel.meet(call);
  std::vector<Record> records(static_cast<std::size_t>(channel.size()));
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    std::memcpy(&records[rank], channel.control().offered(static_cast<int>(rank), channel.barrier()), sizeof(Record));
  }
  return records;
}

}  // namespace cohort::shm
