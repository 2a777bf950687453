// Trainings of every strategy on the toy host, on the CPU or on the fake device.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <cohort/toy_host/toy_host.hpp>

#include "fake_toy_device.hpp"

namespace cohort::test {

/// A job and what it trains.
struct Training {
  const char* name;
  const char* strategy;
  int ranks = 2;
  int nodes = 1;
  int replicas = 1;
  bool one_bucket = false;
  const char* optimizer = "sgd";
  int steps = 4;
  int32_t dtype = COHORT_FLOAT32;
  bool clips = false;        ///< gradients, by their norm
  bool is_in_parts = false;  ///< some parameters stay in host memory
};

inline std::ostream& operator<<(std::ostream& out, const Training& training) {
  return out << training.name;
}

/// Makes a rank's device; empty: the CPU.
using MakeDevice = std::function<std::unique_ptr<toy::ToyDevice>(int rank)>;
inline std::unique_ptr<toy::ToyDevice> fake_device_of(int rank) {
  return std::make_unique<toy::FakeToyDevice>(rank % FAKEDRV_DEVICES);
}

toy::ToyJob job_of(const Training& training, const char* collective, const MakeDevice& make_device);

/// Trains one rank and returns what its model is then.
toy::ToyState train_rank(const Training& training, toy::ToyRank& rank);
/// Returns what each rank's model is after the training. Throws what a rank throws.
std::vector<toy::ToyState> train(const Training& training, const char* collective, const MakeDevice& make_device = {});
/// Returns what each rank's training has failed with; "" for one that has not.
std::vector<std::string> train_to_failure(const Training& training, const char* collective,
                                          const MakeDevice& make_device);

std::vector<std::vector<double>> gradients_of(const Training& training, int rank, int step);
std::vector<toy::ToyParameter> parameters_of(const Training& training);

}  // namespace cohort::test
