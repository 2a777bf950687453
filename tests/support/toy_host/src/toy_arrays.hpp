// The arrays of a toy model: numbers of any floating type, and what belongs to a parameter.
#pragma once

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/half.hpp>
#include <cohort/toy_host/toy_model.hpp>

namespace cohort::toy {

inline double load(const void* data, int32_t dtype, uint64_t index) {
  if (dtype == COHORT_FLOAT64) return static_cast<const double*>(data)[index];
  if (dtype == COHORT_BFLOAT16) return sdk::to_float(static_cast<const sdk::BFloat16*>(data)[index]);
  if (dtype == COHORT_FLOAT16) return sdk::to_float(static_cast<const sdk::Half*>(data)[index]);
  return static_cast<const float*>(data)[index];
}

inline void store(void* data, int32_t dtype, uint64_t index, double value) {
  const auto single = static_cast<float>(value);
  if (dtype == COHORT_FLOAT64) {
    static_cast<double*>(data)[index] = value;
  } else if (dtype == COHORT_BFLOAT16) {
    static_cast<sdk::BFloat16*>(data)[index] = sdk::to_bfloat16(single);
  } else if (dtype == COHORT_FLOAT16) {
    static_cast<sdk::Half*>(data)[index] = sdk::to_half(single);
  } else {
    static_cast<float*>(data)[index] = single;
  }
}

// An array somewhere, as a work of the device sees it.
struct ToyModel::Numbers {
  ToyDevice* device = nullptr;
  void* data = nullptr;
  int32_t dtype = COHORT_FLOAT64;
  uint64_t numel = 0;

  uint64_t nbytes() const { return numel * sdk::size_of(dtype); }
  double at(uint64_t i) const { return load(device->contents(data), dtype, i); }
  void put(uint64_t i, double value) const { store(device->contents(data), dtype, i, value); }
  ToyDevice::Access reads() const { return {data, nbytes(), false}; }
  ToyDevice::Access writes() const { return {data, nbytes(), true}; }
};

struct ToyModel::Slot {
  // State of the optimizer: double, or in the parameter's type where a strategy wants it.
  struct State {
    Memory own;
    void* place = nullptr;
  };
  struct Gradient {
    Memory own;
    void* place = nullptr;
    bool is_there = false;
  };
  ToyParameter parameter;
  ToyDevice* device = nullptr;
  std::vector<int64_t> shape, strides;
  Memory own_weights;
  void* weights = nullptr;
  State momenta, squares;
  int64_t steps = 0;                // done by its optimizer
  std::vector<Gradient> gradients;  // by replica

  Numbers at(void* data) const { return {device, data, parameter.dtype, parameter.numel}; }
  Numbers weight_numbers() const { return at(weights); }
  Numbers gradient_numbers(uint32_t replica) const { return at(gradients[replica].place); }
  Numbers state_numbers(const State& state) const {
    return state.place ? at(state.place) : Numbers{device, state.own.get(), COHORT_FLOAT64, parameter.numel};
  }
};

}  // namespace cohort::toy
