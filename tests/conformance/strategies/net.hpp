// Models that are trained to try a strategy, and what their backward computes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <cohort/toy_host/toy_host.hpp>

#include "subject.hpp"

namespace cohort::conformance {

using Values = std::vector<double>;
using Weights = std::vector<Values>;    ///< by parameter
using Gradients = std::vector<Values>;  ///< [replica * parameters + parameter]; empty: backward does not reach it

struct Net {
  std::vector<toy::ToyParameter> parameters;
  double momentum = 0;
  std::optional<uint64_t> bucket_size{};  ///< bytes; wins over the strategy's

  static constexpr double kLearningRate = 0.125;
};

/// Two types, one frozen parameter, and several buckets.
Net small_net();

/// Whose backward it is.
struct Turn {
  int rank = 0;
  int step = 0;
  int micro = 0;
};
/// What the replicas of a rank compute.
using Backward = std::function<Gradients(const Turn&)>;
using Reaches = std::function<bool(const Turn&, uint32_t replica, uint32_t parameter)>;

/// Gradients are multiples of 1/8 from -2 to 2, different for every rank, replica, step, parameter and element.
Backward backward_of(const Net& net, const Shape& shape, Reaches reaches = nullptr);
/// Multiples of 1/8 from -2 to 2, other ones on every rank.
Weights first_weights(const Net& net, int rank);

/// "" where both have the same bits; else where they differ first.
std::string difference(const Net& net, const Weights& one, const Weights& other);

}  // namespace cohort::conformance
