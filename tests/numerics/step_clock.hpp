// Training data that notes when it is asked for, which is the beginning of each step.
#pragma once

#include <chrono>
#include <cohort/data.hpp>
#include <filesystem>
#include <memory>
#include <vector>

namespace numerics {

class StepClock final : public cohort::DataModule {
 public:
  /// Borrows `data`, whose training set has one batch for each step.
  explicit StepClock(cohort::DataModule& data) : data_(data), begins_(std::make_shared<Begins>()) {}

  cohort::Loader train() override;
  /// Writes the milliseconds from each step's begin to the next one's, as a JSON list: one less than there were steps.
  void write(const std::filesystem::path& file) const;

 private:
  using Begins = std::vector<std::chrono::steady_clock::time_point>;
  class Watched;

  cohort::DataModule& data_;
  std::shared_ptr<Begins> begins_;
};

}  // namespace numerics
