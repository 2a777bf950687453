// Trains by bagua on the toy host, and has the parts that the tests' simulators of its algorithms share.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <cohort/toy_host/toy_host.hpp>

#include "minmax_uint8.hpp"

namespace cohort::test {

using Flat = std::vector<float>;  ///< all weights or gradients of a rank, in the order of the buckets
using ByRank = std::vector<Flat>;

/// A model of float32 parameters and how it is trained.
struct Training {
  std::string algorithm;  ///< with options: "bytegrad,average=false"
  int ranks = 2;
  int nodes = 1;
  std::vector<uint64_t> sizes{7, 33, 64, 1, 129};  ///< of parameters, in registration order
  int steps = 5;
  double learning_rate = 0.125;
  double momentum = 0;
  toy::ToyOptimizer optimizer{};  ///< with the two above
  uint64_t bucket_size = 1 << 20;
  int micro_batches = 1;
  int begin = 0;                      ///< the first step's index
  int zero_from = 1 << 30;            ///< from this step on gradients are 0
  int dead_until = 0;                 ///< before this step the gradient of element 0 is 0
  std::vector<std::string> layers{};  ///< on top, lowest first
};

inline double drawn(uint64_t seed) {
  uint64_t bits = seed + 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-53 - 0.5;
}

inline uint64_t numel_of(const Training& training) {
  uint64_t numel = 0;
  for (const uint64_t size : training.sizes) numel += size;
  return numel;
}

/// Layers that both keep STATE "momentum", in float and in double, and ask for another layout in each step.
inline const std::vector<std::string> kFollowers{"follower_1", "follower_2"};

/// Simulates these layers, which change the weights after each step of the strategy.
struct Followers {
  std::vector<float> first;
  std::vector<double> second;

  explicit Followers(const Training& training) : first(numel_of(training)), second(numel_of(training)) {}
  void step(const Training& training, Flat& weights) {
    if (training.layers != kFollowers) return;
    for (size_t i = 0; i < weights.size(); ++i) {
      first[i] = first[i] / 2 + 1.0f * weights[i];
      weights[i] = weights[i] - first[i] / 64;
      second[i] = second[i] / 2 + double{3.0f * weights[i]};
      weights[i] = static_cast<float>(double{weights[i]} - second[i] / 64);
    }
  }
};

/// Return values for element i of the flat order, which is the registration order of parameters reversed.
inline float first_weight(uint64_t i) {
  return static_cast<float>(2 * drawn(i));
}
inline float gradient(int rank, int step, uint64_t i) {
  return static_cast<float>(
      drawn(1000003 * (static_cast<uint64_t>(rank) + 1) + 7919 * static_cast<uint64_t>(step) + 31 * i));
}
inline Flat gradients(const Training& training, int rank, int step) {
  Flat flat(numel_of(training));
  for (uint64_t i = 0; i < flat.size(); ++i) flat[i] = gradient(rank, step, i);
  return flat;
}
inline Flat first_weights(const Training& training) {
  Flat flat(numel_of(training));
  for (uint64_t i = 0; i < flat.size(); ++i) flat[i] = first_weight(i);
  return flat;
}

/// Convert between one value for each element of the flat order and values by parameter.
std::vector<std::vector<double>> by_parameter(const Training& training, const std::function<float(uint64_t)>& value);
Flat flattened(const std::vector<std::vector<double>>& by_parameter);

/// One rank of a training.
class Trainee {
 public:
  Trainee(toy::ToyRank& rank, const Training& training);
  ~Trainee();
  Trainee(const Trainee&) = delete;
  Trainee& operator=(const Trainee&) = delete;

  int rank() const { return rank_.rank; }
  host::ConnectedRank& runtime() { return rank_.runtime; }
  host::StepEngine& engine() { return engine_; }
  toy::ToyModel& model() { return model_; }
  Flat weights() const { return flattened(model_.state().weights); }
  void step(int index);
  /// Makes a step with these gradients, by parameter.
  void step_on(const std::vector<std::vector<double>>& gradients);
  void steps(int begin, int end);
  /// Pauses at the end of training and returns the weights.
  Flat finish();

 private:
  const Training& training_;
  toy::ToyRank& rank_;
  toy::ToyModel model_;
  host::StepEngine& engine_;
};

toy::ToyJob job_of(const Training& training);
/// Runs `body` on ranks that are threads; rethrows the first rank's exception.
void on_ranks(const Training& training, const std::function<void(Trainee&)>& body);
/// Returns each rank's weights after each step and, last, after the end: `[step][rank]`.
std::vector<ByRank> trained(const Training& training);
/// Returns the first rank's exception text, or "" if it had none.
std::string failure_of(const Training& training);

// ---- Parts of simulators.

/// SGD as the toy model computes it: in double, rounded to float once.
struct Sgd {
  double learning_rate, momentum;
  std::vector<double> momenta;

  explicit Sgd(const Training& training)
      : learning_rate(training.learning_rate), momentum(training.momentum), momenta(numel_of(training)) {}
  void step(Flat& weights, const Flat& gradient) {
    for (size_t i = 0; i < weights.size(); ++i) {
      momenta[i] = momentum * momenta[i] + double{gradient[i]};
      weights[i] = static_cast<float>(double{weights[i]} - learning_rate * momenta[i]);
    }
  }
};

inline Flat sum_of(const ByRank& ranks) {
  Flat sum = ranks[0];
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += ranks[rank][i];
  }
  return sum;
}
inline Flat divided(Flat values, float by) {
  for (float& value : values) value /= by;
  return values;
}
inline Flat mean_of(const ByRank& ranks) {
  return divided(sum_of(ranks), static_cast<float>(ranks.size()));
}

/// Computes the mean as bytegrad sends it: through the codec twice, rank by rank and chunk by chunk.
Flat compressed_mean(ByRank ranks, float divisor);

/// Returns the first difference in bits in words; "" if there is none.
inline std::string difference(const Flat& a, const Flat& b) {
  if (a.size() != b.size()) return "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) == 0) continue;
    std::ostringstream text;
    text.precision(9);
    text << "[" << i << "] is " << a[i] << " and " << b[i];
    return text.str();
  }
  return "";
}

}  // namespace cohort::test
