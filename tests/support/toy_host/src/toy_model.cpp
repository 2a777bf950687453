#include <algorithm>
#include <cstring>

#include <cohort/sdk/dtype.hpp>
#include <cohort/toy_host/toy_host.hpp>

namespace cohort::toy {
namespace {

double load(const void* data, int32_t dtype, uint64_t index) {
  return dtype == COHORT_FLOAT64 ? static_cast<const double*>(data)[index]
                                 : static_cast<double>(static_cast<const float*>(data)[index]);
}

void store(void* data, int32_t dtype, uint64_t index, double value) {
  if (dtype == COHORT_FLOAT64) {
    static_cast<double*>(data)[index] = value;
  } else {
    static_cast<float*>(data)[index] = static_cast<float>(value);
  }
}

std::vector<double> load_all(const void* data, int32_t dtype, uint64_t numel) {
  std::vector<double> values(numel);
  for (uint64_t i = 0; i < numel; ++i) values[i] = load(data, dtype, i);
  return values;
}

}  // namespace

struct ToyModel::Slot {
  ToyParameter parameter;
  int64_t shape;
  int64_t stride = 1;
  std::vector<double> own_weights, own_gradient;  // memory of the right alignment, used as bytes
  void* weights = nullptr;
  void* gradient_place = nullptr;
  bool has_gradient = false;

  uint64_t nbytes() const { return parameter.numel * sdk::size_of(parameter.dtype); }
};

ToyModel::ToyModel(std::vector<ToyParameter> parameters, double first_weight, double learning_rate)
    : learning_rate_(learning_rate) {
  for (ToyParameter& parameter : parameters) {
    Slot slot;
    slot.shape = static_cast<int64_t>(parameter.numel);
    slot.own_weights.resize(parameter.numel);
    slot.own_gradient.resize(parameter.numel);
    slot.weights = slot.own_weights.data();
    slot.gradient_place = slot.own_gradient.data();
    for (uint64_t i = 0; i < parameter.numel; ++i) store(slot.weights, parameter.dtype, i, first_weight);
    slot.parameter = std::move(parameter);
    slots_.push_back(std::move(slot));
  }
  refresh_views();
}

ToyModel::~ToyModel() = default;

void ToyModel::refresh_views() {
  views_.clear();
  for (Slot& slot : slots_) {
    cohort_tensor view{};
    view.data = slot.weights;
    view.shape = &slot.shape;
    view.strides = &slot.stride;
    view.name = slot.parameter.name.c_str();
    view.nbytes = slot.nbytes();
    view.dtype = slot.parameter.dtype;
    view.ndim = 1;
    view.device_type = COHORT_DEVICE_CPU;
    view.flags = COHORT_TENSOR_CONTIGUOUS | (slot.parameter.requires_grad ? COHORT_TENSOR_REQUIRES_GRAD : 0u);
    view.id = static_cast<uint32_t>(views_.size());
    views_.push_back(view);
  }
}

std::vector<double> ToyModel::weights(uint32_t parameter) const {
  const Slot& slot = slots_[parameter];
  return load_all(slot.weights, slot.parameter.dtype, slot.parameter.numel);
}

std::vector<double> ToyModel::gradient(uint32_t parameter) const {
  const Slot& slot = slots_[parameter];
  if (!slot.has_gradient) return {};
  return load_all(slot.gradient_place, slot.parameter.dtype, slot.parameter.numel);
}

void ToyModel::add_gradient(uint32_t parameter, std::span<const double> values) {
  Slot& slot = slots_[parameter];
  for (uint64_t i = 0; i < slot.parameter.numel; ++i) {
    const double before = slot.has_gradient ? load(slot.gradient_place, slot.parameter.dtype, i) : 0.0;
    store(slot.gradient_place, slot.parameter.dtype, i, before + values[i]);
  }
  slot.has_gradient = true;
}

void ToyModel::show_gradient(uint32_t parameter) {
  slots_[parameter].has_gradient = true;
}
void ToyModel::forget_gradient(uint32_t parameter) {
  slots_[parameter].has_gradient = false;
}

void ToyModel::place_gradients(uint32_t, std::span<void* const> places) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].gradient_place = places[i] ? places[i] : slots_[i].own_gradient.data();
    slots_[i].has_gradient = false;
  }
}

void ToyModel::move_weights(std::span<void* const> places) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    void* const target = places[i] ? places[i] : slots_[i].own_weights.data();
    if (target != slots_[i].weights) std::memcpy(target, slots_[i].weights, slots_[i].nbytes());
    slots_[i].weights = target;
  }
  refresh_views();
}

void ToyModel::zero_gradient(uint32_t, uint32_t parameter) {
  std::memset(slots_[parameter].gradient_place, 0, slots_[parameter].nbytes());
}

void ToyModel::optimizer_step(uint32_t) {
  for (Slot& slot : slots_) {
    if (!slot.has_gradient) continue;
    const int32_t dtype = slot.parameter.dtype;
    for (uint64_t i = 0; i < slot.parameter.numel; ++i) {
      store(slot.weights, dtype, i,
            load(slot.weights, dtype, i) - learning_rate_ * load(slot.gradient_place, dtype, i));
    }
  }
}

}  // namespace cohort::toy
