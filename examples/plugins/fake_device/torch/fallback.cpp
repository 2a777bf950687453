// The fallback: one object for each call, which turns the arguments into the CPU's, notes the bytes that they are, and
// runs the CPU's kernel as a view, later, or now (fallback.hpp says when). Work that runs later keeps aliases, which
// are addresses, and no tensors: memory that is freed too early is to be found.
#include "fallback.hpp"

#include <exception>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/ops/clone.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "aliases.hpp"
#include "generator.hpp"
#include "plan.hpp"

namespace fake_torch {
namespace {

using torch::jit::Stack;

void redispatch(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  if (const Kernel own = plan_of(op).kernel) return own(*stack);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

std::vector<at::Tensor> tensors_in(const Stack& values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
    }
  }
  return tensors;
}

// Copies what a call has made to where it was captured to be; undefined places have it already.
void put(const Stack& made, const std::vector<at::Tensor>& places) {
  if (places.empty()) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const std::vector<at::Tensor> results = tensors_in(made);
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i].defined()) continue;
    TORCH_CHECK(results[i].sizes() == places[i].sizes(), "a result has the sizes ", results[i].sizes(),
                " and had, when the call was captured, ", places[i].sizes());
    places[i].copy_(results[i]);
  }
}

// The arguments of a call as the CPU takes them, and which bytes of the device it uses.
class Call {
 public:
  Call(const c10::OperatorHandle& op, const Plan& plan, Stack* stack)
      : plan_(plan), op_(op), originals_(torch::jit::pop(*stack, plan.is_written.size())) {
    find_device();
    convert(Aliases::Bytes::kDevice);
  }

  void run(Stack* stack) {
    if (plan_.is_view) {
      redispatch(op_, &arguments_);
      return give_results(stack);
    }
    if (plan_.can_wait && !is_empty_written_) {
      enqueue();
      for (const size_t argument : plan_.returned) stack->push_back(originals_[argument]);
      return;
    }
    if (fakedrv_capture(stream()) != 0) return record(stack);
    run_now();
    give_results(stack);
  }

 private:
  struct Written {
    at::Tensor tensor;
    c10::DimVector sizes;
  };
  struct Deferred {
    c10::OperatorHandle op;
    Stack arguments;
    std::vector<Written> written;
    std::vector<at::Tensor> places;  // of results that are no arguments
  };

  const Plan& plan_;
  const c10::OperatorHandle& op_;
  Stack originals_, arguments_;
  Aliases aliases_;
  std::vector<fakedrv_access> accesses_;
  std::vector<Written> written_;
  bool is_empty_written_ = false;  // has perhaps to be resized
  bool is_dry_ = false;            // the arguments lie over zeros
  bool draws_ = false;
  bool has_mask_ = false;  // among indices
  std::optional<c10::Device> device_;

  // Notes the device of a tensor. Throws for a tensor of another one.
  void note_device(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kFake) return;
    if (!device_) device_ = tensor.device();
    TORCH_CHECK(*device_ == tensor.device(), plan_.name,
                ": expected all tensors to be on the same device, but found at least two devices, ", *device_, " and ",
                tensor.device());
  }
  void find_device() {
    for (const c10::IValue& value : originals_) {
      if (value.isTensor()) note_device(value.toTensor());
      if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector()) note_device(tensor);
      }
      if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
          if (tensor) note_device(*tensor);
        }
      }
    }
    for (const c10::IValue& value : originals_) {
      if (!device_ && value.isDevice() && value.toDevice().type() == kFake) device_ = whole(value.toDevice());
    }
    if (!device_) device_ = current_device();
  }

  void convert(Aliases::Bytes bytes) {
    is_dry_ = bytes == Aliases::Bytes::kZeros;
    aliases_ = Aliases(bytes);
    arguments_.clear();
    accesses_.clear();
    written_.clear();
    for (size_t i = 0; i < originals_.size(); ++i) arguments_.push_back(converted(i));
  }

  bool is_written(size_t argument) const {
    const bool is_training = plan_.training == SIZE_MAX || originals_[plan_.training].toBool();
    return plan_.is_written[argument] || (plan_.is_hidden_write[argument] && is_training);
  }

  c10::IValue converted(size_t argument) {
    const c10::IValue& value = originals_[argument];
    const bool is_write = is_written(argument);
    if (value.isTensor()) return tensor(value.toTensor(), is_write);
    if (value.isTensorList()) {
      c10::List<at::Tensor> made;
      for (const at::Tensor& given : value.toTensorVector()) made.push_back(tensor(given, is_write));
      return made;
    }
    if (value.isOptionalTensorList()) return indices(value.toOptionalTensorVector());
    if (value.isDevice()) return c10::Device(c10::DeviceType::CPU);
    if (plan_.is_generator[argument]) {
      const at::Generator& drawn = drawn_from(value.isNone() ? default_generator(*device_) : value.toGenerator());
      draws_ = true;
      return is_dry_ ? drawn.clone() : drawn;
    }
    return value;
  }

  // Indices may lie on the CPU, as with CUDA.
  c10::IValue indices(const std::vector<std::optional<at::Tensor>>& given) {
    c10::List<std::optional<at::Tensor>> made;
    for (const std::optional<at::Tensor>& index : given) {
      if (!index || !index->defined()) {
        made.push_back(index);
      } else {
        has_mask_ |= index->scalar_type() == at::kBool || index->scalar_type() == at::kByte;
        made.push_back(index->is_cpu() ? index->clone() : tensor(*index, false));
      }
    }
    return made;
  }

  // The caller may change it before the call runs.
  static at::Tensor by_value(const at::Tensor& scalar) {
    at::Tensor copy = scalar.clone();
    if (scalar.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    return copy;
  }

  at::Tensor tensor(const at::Tensor& given, bool is_write) {
    if (!given.defined()) return given;
    if (given.is_cpu() && given.dim() == 0 && !is_write) return by_value(given);
    TORCH_CHECK(given.device() == *device_, plan_.name,
                ": expected all tensors to be on the same device, but found at least two devices, ", *device_, " and ",
                given.device());
    TORCH_CHECK(given.layout() == c10::kStrided, plan_.name, ": a fake device has dense tensors alone, and this is ",
                given.layout());
    add_access(accesses_, given, is_write);
    at::Tensor alias = aliases_.of(given);
    if (is_write) {
      is_empty_written_ |= given.numel() == 0;
      written_.push_back({alias, c10::DimVector(given.sizes())});
    }
    return alias;
  }

  fakedrv_stream* stream() const { return current_stream(*device_); }

  static int run_deferred(void* arg) {
    const auto& [op, arguments, written, places] = *static_cast<Deferred*>(arg);
    try {
      Stack stack = arguments;  // captured work runs again
      redispatch(op, &stack);
      put(stack, places);
      for (const auto& [tensor, sizes] : written) {
        TORCH_CHECK(tensor.sizes() == sizes, "an argument that takes results has the sizes ", sizes,
                    ", and they have the sizes ", tensor.sizes());
      }
      return 0;
    } catch (const c10::Error& error) {
      return fakedrv_fail(error.what_without_backtrace());
    } catch (const std::exception& error) {
      return fakedrv_fail(error.what());
    }
  }
  void enqueue(std::vector<at::Tensor> places = {}) {
    auto* const deferred = new Deferred{op_, std::move(arguments_), std::move(written_), std::move(places)};
    const auto drop = [](void* arg) { delete static_cast<Deferred*>(arg); };
    check(
        fakedrv_launch(stream(), plan_.name.c_str(), accesses_.data(), accesses_.size(), run_deferred, deferred, drop));
  }

  void run_now() {
    struct Now {
      const c10::OperatorHandle& op;
      Stack& stack;
      std::exception_ptr failure;
    } now{op_, arguments_, nullptr};
    const auto run = [](void* arg) {
      auto& [op, stack, failure] = *static_cast<Now*>(arg);
      try {
        redispatch(op, &stack);
      } catch (...) {
        failure = std::current_exception();  // keeps its type
      }
      return 0;
    };
    check(fakedrv_call(stream(), plan_.name.c_str(), accesses_.data(), accesses_.size(), run, &now));
    if (now.failure) std::rethrow_exception(now.failure);
    aliases_.take_back(stream(), plan_.name.c_str());
    if (plan_.tells_host) check(fakedrv_wait(stream()));
  }

  // The call as it will run in each replay.
  void record(Stack* stack) {
    const bool has_open_sizes = plan_.takes_indices ? has_mask_ : plan_.has_open_sizes;
    if (plan_.tells_host || has_open_sizes) refuse_in_capture(stream(), plan_.name);
    convert(Aliases::Bytes::kZeros);
    redispatch(op_, &arguments_);
    aliases_.take_back(stream(), plan_.name.c_str());
    const auto num_others = static_cast<std::ptrdiff_t>(stack->size());
    give_results(stack);
    const std::vector<at::Tensor> results = tensors_in(Stack(stack->begin() + num_others, stack->end()));
    convert(Aliases::Bytes::kDevice);
    enqueue(places_of(results));
    if (draws_) check(fakedrv_replay_at_once(stream()));
  }
  // Undefined for arguments and their views.
  std::vector<at::Tensor> places_of(const std::vector<at::Tensor>& results) {
    std::vector<bool> is_new;
    for (const at::Tensor& made : results) is_new.push_back(made.defined() && !aliases_.know(made.storage()));
    std::vector<at::Tensor> places(results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (!is_new[i]) continue;
      add_access(accesses_, results[i], true);
      places[i] = aliases_.of(results[i]);
    }
    return places;
  }

  at::Tensor result(const at::Tensor& made) { return aliases_.result(made, *device_, stream(), plan_.name.c_str()); }
  void give_results(Stack* stack) {
    for (const c10::IValue& made : arguments_) {
      if (made.isTensor()) {
        stack->push_back(result(made.toTensor()));
      } else if (made.isTensorList()) {
        c10::List<at::Tensor> results;
        for (const at::Tensor& tensor : made.toTensorVector()) results.push_back(result(tensor));
        stack->push_back(std::move(results));
      } else {
        stack->push_back(made);
      }
    }
  }
};

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Call(op, plan_of(op), stack).run(stack);
}

void run_on_cpu_as(const char* name, const char* overload, Stack* stack) {
  run_on_cpu(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), stack);
}

}  // namespace fake_torch
