#include "net.hpp"

#include <bit>
#include <initializer_list>
#include <sstream>

namespace cohort::conformance {
namespace {

// Well mixed bits (splitmix64).
uint64_t mixed(std::initializer_list<uint64_t> numbers) {
  uint64_t bits = 0;
  for (const uint64_t number : numbers) {
    bits += 0x9e3779b97f4a7c15u + number;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    bits ^= bits >> 31;
  }
  return bits;
}

// The first value is above 0, so that gradients never cancel out in every element of a parameter.
Values values_of(uint64_t seed, uint64_t numel) {
  Values values(numel);
  for (uint64_t i = 0; i < numel; ++i) {
    const uint64_t bits = mixed({seed, i});
    values[i] = i == 0 ? static_cast<double>(bits % 16 + 1) / 8.0 : (static_cast<double>(bits % 33) - 16.0) / 8.0;
  }
  return values;
}

}  // namespace

Net small_net() {
  Net net;
  net.parameters = {
      {"first", 7}, {"frozen", 5, COHORT_FLOAT32, false}, {"wide", 33, COHORT_FLOAT64}, {"middle", 64}, {"one", 1},
      {"last", 129}};
  net.bucket_size = 256;
  return net;
}

Backward backward_of(const Net& net, const Shape& shape, Reaches reaches) {
  return [parameters = net.parameters, replicas = static_cast<uint32_t>(shape.replicas),
          reaches = std::move(reaches)](const Turn& turn) {
    Gradients gradients;
    for (uint32_t replica = 0; replica < replicas; ++replica) {
      for (uint32_t parameter = 0; parameter < parameters.size(); ++parameter) {
        Values& values = gradients.emplace_back();
        if (!parameters[parameter].requires_grad || (reaches && !reaches(turn, replica, parameter))) continue;
        const uint64_t seed = mixed({1, static_cast<uint64_t>(turn.rank), replica, static_cast<uint64_t>(turn.step),
                                     static_cast<uint64_t>(turn.micro), parameter});
        values = values_of(seed, parameters[parameter].numel);
      }
    }
    return gradients;
  };
}

Weights first_weights(const Net& net, int rank) {
  Weights weights;
  for (const auto& parameter : net.parameters) {
    weights.push_back(values_of(mixed({2, static_cast<uint64_t>(rank), weights.size()}), parameter.numel));
  }
  return weights;
}

std::string difference(const Net& net, const Weights& one, const Weights& other) {
  for (size_t parameter = 0; parameter < net.parameters.size(); ++parameter) {
    for (size_t i = 0; i < one[parameter].size(); ++i) {
      const double a = one[parameter][i], b = other[parameter][i];
      if (std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b)) continue;
      std::ostringstream text;
      text.precision(17);
      text << "'" << net.parameters[parameter].name << "' [" << i << "] is " << a << " and " << b;
      return text.str();
    }
  }
  return "";
}

}  // namespace cohort::conformance
