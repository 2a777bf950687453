// One rank of a job, as a Runtime reaches it: collectives outside of the steps.
//
// [main] thread. Functions that are not called local are collective: the same calls in the same order on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::host {

class FlightObserver;

class Rank {
 public:
  Rank() = default;
  virtual ~Rank() = default;  ///< local
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// Meets the other ranks and makes the communicators. Throws PeerFailed if one is missing at the deadline.
  virtual void connect() = 0;
  virtual void shutdown() = 0;

  // On a communicator of their own. With one rank they return at once.
  virtual void barrier() = 0;
  virtual void all_reduce(std::span<double> values, int32_t reduce) = 0;  ///< `reduce` is COHORT_REDUCE_...
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual std::vector<std::string> all_gather(std::string_view text) = 0;  ///< by rank
  /// Returns if every rank gives the same text, else throws the same UserError on all; see store.hpp.
  virtual void agree(const std::string& topic, std::string_view text, std::string_view problem) = 0;
  /// Returns whether every rank gives the same number. `purpose` names the comparison in reports of failures.
  virtual bool is_same_on_all_ranks(uint64_t value, const std::string& purpose) = 0;

  virtual uint64_t bytes_sent() const = 0;              ///< local
  virtual std::string collective() const = 0;           ///< local; "" before connect and with one rank
  virtual std::vector<std::string> layers() const = 0;  ///< local; of the strategy, lowest first
  /// Reports operations and buckets to this observer; null: to nobody. See FlightRecorder. Local.
  virtual void observe(FlightObserver* observer) = 0;
};

}  // namespace cohort::host
