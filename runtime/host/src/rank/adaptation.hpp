// What a run learns from its first steps: the order in which gradients arrive, whether communicating during backward is
// faster than after it, and whether smaller buckets are.
//
// Results do not depend on it. Belongs to one rank's configured model; the same calls on every rank. Rank 0 decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "step/trial.hpp"

namespace cohort::host {

struct RankState;

class Adaptation {
 public:
  explicit Adaptation(RankState& state);
  /// Between two steps, gradients are forgotten. Collective at the same steps on all ranks.
  void after_step();

 private:
  struct Mode {
    bool overlap;
    uint64_t bucket_size;  // 0: the strategy's
  };
  RankState& state_;
  std::vector<Mode> modes_;  // the first is how training begins
  std::optional<Trial> trial_;
  bool arrival_known_ = false;

  void follow_arrival();
  void begin_trial();
  bool may_resize() const;
  size_t best_mode() const;
  void use(const Mode& mode);
  std::string describe(size_t best) const;
};

}  // namespace cohort::host
