#include <cohort/torch_error.hpp>

#include <algorithm>
#include <array>

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

Error error_of(const c10::Error& error, const std::string& who, int64_t pieces) {
  const std::string what = who + sentence_of(error);
  if (what.find("Sparse") != std::string::npos) {
    return UserError(host::on_one_line(what) +
                     "; gradients of an Embedding with sparse(true) are sparse: make it with sparse(false), or leave "
                     "out what looks at them");
  }
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) == nullptr) return TrainingFailed(what);
  const std::string smaller = pieces > 0
                                  ? "give --pieces=" + std::to_string(2 * pieces) +
                                        ", which trains on each batch in so many pieces with the same gradients, "
                                        "or choose "
                                  : "choose a smaller batch or ";
  return UserError(host::on_one_line(what) + "; " + smaller +
                   "--strategy=sharded, which divides the optimizer's state");
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
