#include <cohort/torch_error.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cohort/host/in_quotes.hpp>

namespace cohort {

namespace {

/// Returns what LibTorch says, without its list of all backends that have an operator.
std::string sentence_of(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find(". This could be because the operator doesn't exist for this backend"));
}

// Allocators of the CPU and of the libraries of CUDA throw no type of their own.
bool tells_of_memory(std::string_view text) {
  constexpr std::array<std::string_view, 3> kTexts{"DefaultCPUAllocator: ", "CUBLAS_STATUS_ALLOC_FAILED",
                                                   "CUDNN_STATUS_ALLOC_FAILED"};
  return std::ranges::any_of(kTexts, [&](std::string_view one) { return text.find(one) != std::string_view::npos; });
}

bool is_torch_out_of_memory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         tells_of_memory(error.what_without_backtrace());
}

bool tells_of_loss(const c10::AcceleratorError& error) {
  // ECC, illegal address, time out of a launch, assertion, stack, instruction, alignment, address space, pc, launch.
  constexpr std::array<int32_t, 10> kLost{214, 700, 702, 710, 714, 715, 716, 717, 718, 719};
  return std::ranges::find(kLost, error.get_error_code()) != kLost.end();
}

// Asks the thread's device for its state, which waits for nothing.
bool has_lost_device() {
  const auto type = at::getAccelerator();
  if (!type || !c10::impl::hasDeviceGuardImpl(*type)) return false;
  try {
    const c10::impl::VirtualGuardImpl guard(*type);
    const c10::Device device = guard.getDevice();
    if (!at::globalContext().getAcceleratorHooksInterface(*type).hasPrimaryContext(device.index())) return false;
    guard.queryStream(guard.getStream(device));
  } catch (const c10::AcceleratorError& error) {
    return tells_of_loss(error);
  } catch (const c10::Error&) {
    // It has no such state.
  }
  return false;
}

}  // namespace

Error error_of(const c10::Error& error, const std::string& who, int64_t more_pieces) {
  const std::string what = who + sentence_of(error);
  if (what.find("Sparse") != std::string::npos) {
    return UserError(host::on_one_line(what) +
                     "; gradients of an Embedding with sparse(true) are sparse: make it with sparse(false), or leave "
                     "out what looks at them");
  }
  if (!is_torch_out_of_memory(error)) return TrainingFailed(what);
  const std::string smaller = more_pieces > 0
                                  ? "give --pieces=" + std::to_string(more_pieces) +
                                        ", which trains on each batch in so many pieces with the same gradients, "
                                        "or choose "
                                  : "choose a smaller batch or ";
  return UserError(host::on_one_line(what) + "; " + smaller +
                   "--strategy=sharded, which divides the optimizer's state");
}

// The interpreter of TorchScript makes another exception of each, which has the text.
bool is_out_of_memory(const std::exception& error) {
  const auto* const own = dynamic_cast<const c10::Error*>(&error);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr || (own && is_torch_out_of_memory(*own))) return true;
  const std::string_view text = error.what();
  const bool is_of_script = text.find("TorchScript interpreter") != std::string_view::npos;
  if (is_of_script && (tells_of_memory(text) || text.find("out of memory") != std::string_view::npos)) return true;
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& nested) {
    return is_out_of_memory(nested);
  }
  return false;
}

void throw_torch_error() {
  try {
    throw;
  } catch (const c10::Error& error) {
    throw error_of(error);
  } catch (...) {
    return;
  }
}

bool is_device_lost(const c10::Error& error) {
  const auto* const own = dynamic_cast<const c10::AcceleratorError*>(&error);
  return own ? tells_of_loss(*own) : has_lost_device();
}

}  // namespace cohort
