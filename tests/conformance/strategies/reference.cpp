#include "reference.hpp"

#include <cmath>
#include <limits>
#include <sstream>

namespace cohort::conformance {
namespace {

// The distance of 1 to the next number.
double epsilon_of(int32_t dtype) {
  if (dtype == COHORT_FLOAT64) return std::numeric_limits<double>::epsilon();
  if (dtype == COHORT_BFLOAT16) return 0x1p-7;
  if (dtype == COHORT_FLOAT16) return 0x1p-10;
  return std::numeric_limits<float>::epsilon();
}

}  // namespace

Reference::Reference(const Net& net, const Shape& shape) : net_(net), shape_(shape) {
  for (const Values& values : first_weights(net, 0)) {
    auto& elements = elements_.emplace_back();
    for (const double value : values) elements.push_back({value, 0, 0, 0});
  }
}

void Reference::step(const Backward& backward, const std::vector<Turn>& micro_batches, uint32_t phase) {
  std::vector<Gradients> all;
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    for (const Turn& turn : micro_batches) all.push_back(backward({rank, turn.step, turn.micro}));
  }
  const size_t parameters = net_.parameters.size();
  for (size_t parameter = 0; parameter < parameters; ++parameter) {
    if (net_.parameters[parameter].phase != phase) continue;
    std::vector<const Values*> parts;  // of ranks, micro-batches and replicas
    for (const Gradients& gradients : all) {
      for (size_t i = parameter; i < gradients.size(); i += parameters) {
        if (!gradients[i].empty()) parts.push_back(&gradients[i]);
      }
    }
    if (parts.empty()) continue;
    const double rounding = epsilon_of(net_.parameters[parameter].dtype);
    std::vector<double> gradients(parts.size());
    for (size_t i = 0; i < elements_[parameter].size(); ++i) {
      for (size_t part = 0; part < parts.size(); ++part) gradients[part] = (*parts[part])[i];
      step_element(elements_[parameter][i], gradients, rounding);
    }
  }
}

void Reference::step_element(Element& element, const std::vector<double>& gradients, double rounding) const {
  double sum = 0, magnitude = 0;
  for (const double gradient : gradients) {
    sum += gradient;
    magnitude += std::abs(gradient);
  }
  const double parts = static_cast<double>(gradients.size());
  element.momentum = net_.momentum * element.momentum + sum / shape_.ranks;
  element.momentum_error = net_.momentum * element.momentum_error + (parts + 1) * rounding * magnitude / shape_.ranks;
  element.weight -= Net::kLearningRate * element.momentum;
  element.weight_error += Net::kLearningRate * element.momentum_error + rounding * std::abs(element.weight);
}

std::string Reference::difference_to(const Weights& weights) const {
  for (size_t parameter = 0; parameter < elements_.size(); ++parameter) {
    for (size_t i = 0; i < elements_[parameter].size(); ++i) {
      const Element& wanted = elements_[parameter][i];
      if (std::abs(weights[parameter][i] - wanted.weight) <= wanted.weight_error) continue;
      std::ostringstream text;
      text.precision(17);
      text << "'" << net_.parameters[parameter].name << "' [" << i << "] is " << weights[parameter][i]
           << ", but the mean gradient leads to " << wanted.weight << " (rounding: " << wanted.weight_error << ")";
      return text.str();
    }
  }
  return "";
}

}  // namespace cohort::conformance
