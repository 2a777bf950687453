// What the user chose: the algorithm and its options.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <cohort/sdk/options.hpp>

namespace cohort::bagua {

inline constexpr uint64_t kQadamWarmupSteps = 100;  ///< where neither the option nor the optimizer tells

struct Settings {
  enum class Hierarchical { kAuto, kYes, kNo };

  std::string algorithm;
  Hierarchical hierarchical = Hierarchical::kAuto;
  bool average = true;
  uint64_t bucket_size = 0;  ///< bytes
  bool shift_one = false;    ///< peer_selection_mode
  uint64_t communication_interval = 1;
  std::optional<uint64_t> warmup_steps;  ///< absent: the algorithm's own
  double variance_floor = 0;
  std::chrono::milliseconds sync_interval{0};
  uint64_t check_replicas_every = 0;  ///< steps; 0 never
};

/// Throws where an option is given to an algorithm that does not have it.
Settings read_settings(const sdk::Options& options);

}  // namespace cohort::bagua
