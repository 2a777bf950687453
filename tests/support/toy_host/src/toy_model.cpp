#include <algorithm>
#include <cstring>

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/half.hpp>
#include <cohort/toy_host/toy_host.hpp>

namespace cohort::toy {
namespace {

double load(const void* data, int32_t dtype, uint64_t index) {
  if (dtype == COHORT_FLOAT64) return static_cast<const double*>(data)[index];
  if (dtype == COHORT_BFLOAT16) return sdk::to_float(static_cast<const sdk::BFloat16*>(data)[index]);
  if (dtype == COHORT_FLOAT16) return sdk::to_float(static_cast<const sdk::Half*>(data)[index]);
  return static_cast<const float*>(data)[index];
}

void store(void* data, int32_t dtype, uint64_t index, double value) {
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

std::vector<double> load_all(const void* data, int32_t dtype, uint64_t numel) {
  std::vector<double> values(numel);
  for (uint64_t i = 0; i < numel; ++i) values[i] = load(data, dtype, i);
  return values;
}

}  // namespace

struct ToyModel::Slot {
  struct Gradient {
    std::vector<double> own;  // memory of the right alignment, used as bytes
    void* place = nullptr;
    bool is_there = false;
  };
  ToyParameter parameter;
  int64_t shape;
  int64_t stride = 1;
  std::vector<double> own_weights;  // as Gradient::own
  void* weights = nullptr;
  std::vector<double> momenta;
  std::vector<Gradient> gradients;  // by replica

  uint64_t nbytes() const { return parameter.numel * sdk::size_of(parameter.dtype); }
};

ToyModel::ToyModel(std::vector<ToyParameter> parameters, double first_weight, double learning_rate, double momentum,
                   uint32_t replicas)
    : learning_rate_(learning_rate), momentum_(momentum), replicas_(replicas) {
  for (ToyParameter& parameter : parameters) {
    Slot slot;
    slot.shape = static_cast<int64_t>(parameter.numel);
    slot.own_weights.resize(parameter.numel);
    slot.weights = slot.own_weights.data();
    slot.momenta.resize(parameter.numel);
    for (uint64_t i = 0; i < parameter.numel; ++i) store(slot.weights, parameter.dtype, i, first_weight);
    for (uint32_t replica = 0; replica < replicas; ++replica) {
      Slot::Gradient& gradient = slot.gradients.emplace_back();
      gradient.own.resize(parameter.numel);
      gradient.place = gradient.own.data();
    }
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

uint32_t ToyModel::num_phases() {
  uint32_t count = 1;
  for (const Slot& slot : slots_) count = std::max(count, slot.parameter.phase + 1);
  return count;
}

uint32_t ToyModel::phase_of(uint32_t parameter) {
  return slots_[parameter].parameter.phase;
}

std::vector<double> ToyModel::weights(uint32_t parameter) const {
  const Slot& slot = slots_[parameter];
  return load_all(slot.weights, slot.parameter.dtype, slot.parameter.numel);
}

ToyState ToyModel::state() const {
  ToyState state;
  for (uint32_t parameter = 0; parameter < slots_.size(); ++parameter) {
    state.weights.push_back(weights(parameter));
    state.momenta.push_back(slots_[parameter].momenta);
  }
  return state;
}

void ToyModel::set_state(const ToyState& state) {
  for (size_t parameter = 0; parameter < slots_.size(); ++parameter) {
    Slot& slot = slots_[parameter];
    for (uint64_t i = 0; i < slot.parameter.numel; ++i) {
      store(slot.weights, slot.parameter.dtype, i, state.weights[parameter][i]);
    }
    slot.momenta = state.momenta[parameter];
  }
}

std::vector<double> ToyModel::gradient(uint32_t parameter) const {
  const Slot& slot = slots_[parameter];
  if (!slot.gradients[0].is_there) return {};
  return load_all(slot.gradients[0].place, slot.parameter.dtype, slot.parameter.numel);
}

void ToyModel::add_gradient(uint32_t parameter, std::span<const double> values, uint32_t replica) {
  const ToyParameter& about = slots_[parameter].parameter;
  Slot::Gradient& gradient = slots_[parameter].gradients[replica];
  for (uint64_t i = 0; i < about.numel; ++i) {
    const double before = gradient.is_there ? load(gradient.place, about.dtype, i) : 0.0;
    store(gradient.place, about.dtype, i, before + values[i]);
  }
  gradient.is_there = true;
}

void ToyModel::show_gradient(uint32_t parameter) {
  slots_[parameter].gradients[0].is_there = true;
}

void ToyModel::forget_gradient(uint32_t parameter) {
  for (Slot::Gradient& gradient : slots_[parameter].gradients) gradient.is_there = false;
}

void ToyModel::place_gradients(uint32_t replica, std::span<void* const> places) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot::Gradient& gradient = slots_[i].gradients[replica];
    gradient.place = places[i] ? places[i] : gradient.own.data();
    gradient.is_there = false;
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

void ToyModel::zero_gradient(uint32_t replica, uint32_t parameter) {
  std::memset(slots_[parameter].gradients[replica].place, 0, slots_[parameter].nbytes());
}

void ToyModel::optimizer_step(uint32_t phase) {
  for (Slot& slot : slots_) {
    if (slot.parameter.phase != phase || !slot.gradients[0].is_there) continue;
    const int32_t dtype = slot.parameter.dtype;
    for (uint64_t i = 0; i < slot.parameter.numel; ++i) {
      slot.momenta[i] = momentum_ * slot.momenta[i] + load(slot.gradients[0].place, dtype, i);
      store(slot.weights, dtype, i, load(slot.weights, dtype, i) - learning_rate_ * slot.momenta[i]);
    }
  }
}

}  // namespace cohort::toy
