// Where training leads: SGD on the mean over ranks of the sum over replicas, one element after the other in double.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net.hpp"

namespace cohort::conformance {

class Reference {
 public:
  Reference(const Net& net, const Shape& shape);

  /// The step of a phase with the gradients of these turns of every rank, added up.
  void step(const Backward& backward, const std::vector<Turn>& micro_batches, uint32_t phase = 0);
  void step(const Backward& backward, int index, uint32_t phase = 0) { step(backward, {Turn{0, index, 0}}, phase); }

  /// "" where the weights are these up to rounding; else where they differ first.
  std::string difference_to(const Weights& weights) const;

 private:
  struct Element {
    double weight = 0, momentum = 0;
    double weight_error = 0, momentum_error = 0;  // what rounding may have made of them
  };
  Net net_;
  Shape shape_;
  std::vector<std::vector<Element>> elements_;  // by parameter

  void step_element(Element& element, const std::vector<double>& gradients, double rounding) const;
};

}  // namespace cohort::conformance
