// The ranks of a job as a Runtime reaches them: what they do together outside of the steps, and their trainings.
//
// Belongs to one rank. [main] thread. What is not called local is collective: the same calls in the same order on every
// rank. A Runtime makes its own, on the host; tests of what stands on a Runtime give it another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/rank_runtime.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/precision.hpp>
#include <cohort/step_driver.hpp>

namespace cohort {

class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Meets the other ranks. Throws PeerFailed if one is missing at the deadline.
  virtual void connect() = 0;
  virtual void shutdown() = 0;

  /// See Runtime. `reduce` is COHORT_REDUCE_...; `value` the fingerprint of a text.
  virtual void barrier() = 0;
  virtual void all_reduce(std::span<double> values, int32_t reduce) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual std::vector<std::string> all_gather(std::string_view text) = 0;
  virtual bool is_same_on_all_ranks(uint64_t value, const std::string& purpose) = 0;
  virtual void agree(const std::string& topic, std::string_view text, std::string_view problem) = 0;
  virtual std::unique_ptr<StepDriver> make_driver(Runtime& runtime, std::span<torch::nn::Module* const> replicas,
                                                  Optimizers optimizers, UnroundedWeights unrounded) = 0;

  /// See Runtime. Local.
  virtual uint64_t bytes_sent() const = 0;
  virtual std::string collective() const = 0;
  virtual std::vector<std::string> layers() const = 0;
  virtual host::RankRuntime& rank_runtime() = 0;
  virtual void observe(host::FlightObserver* observer) = 0;
};

}  // namespace cohort
