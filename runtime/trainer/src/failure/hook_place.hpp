// Says where the user's code has failed or hangs: which hook, and what it was called with.
//
// A place is given with each call of a hook. It owns nothing and is put into words only if the hook throws, crashes or
// hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <cohort/host/activity.hpp>
#include <cohort/host/error.hpp>
#include <cohort/value.hpp>

namespace cohort {

/// A mistake whose message says where it is, so that no place has to be added.
struct PlacedError : UserError {
  using UserError::UserError;
};

/// A mistake that every rank comes to at the same place, because all have the same values.
struct MistakeOfAllRanks : PlacedError {
  using PlacedError::PlacedError;
};

/// A hook that is called and that the module does not override. The message says which.
struct MissingHook : PlacedError {
  using PlacedError::PlacedError;
};

struct HookPlace {
  std::string_view hook;           ///< "training_step"
  std::string_view callback{};     ///< whose hook it is; empty: the module's
  std::optional<int64_t> epoch{};  ///< from 0
  std::optional<int64_t> index{};  ///< of the batch in the epoch
  std::optional<int> rank{};
  std::optional<size_t> replica{};
  const Batch* batch = nullptr;  ///< that the hook was given
  int64_t more_pieces = 0;       ///< that the batch could be trained in for less memory; 0: none
};

/// Throws what is being handled again with the place before its message, and with shapes and types of the batch on a
/// second line. Call in a catch block. A UserError stays one, other exceptions become TrainingFailed; the original is
/// nested. Throws unchanged what names its place already, and what tells of other ranks or of a signal.
/// If the device is lost it ends the process by std::terminate.
[[noreturn]] void throw_from(const HookPlace& place);

/// The same for backward of a loss that a training_step has returned, with a hint if that step has run backward itself.
/// Errors of the runtime are thrown unchanged.
[[noreturn]] void throw_from_backward(const HookPlace& place);

/// Puts a HookPlace, without the batch, into words.
void put_in_words(const void* place, host::TextInRoom& text);

/// Names a part of a step that is no hook, for the report of a crash or of a hang, as long as it lives.
class StepPart {
 public:
  explicit StepPart(const HookPlace& place) : place_(place) {}

 private:
  HookPlace place_;
  host::Activity activity_{&place_, put_in_words};
};

/// Returns what the hook returns; what it throws tells of the place, as does the report of a crash or of a hang.
template <class Hook>
decltype(auto) in_hook(const HookPlace& place, const Hook& hook) {
  const host::Activity activity(&place, put_in_words);
  try {
    return hook();
  } catch (...) {
    throw_from(place);
  }
}

}  // namespace cohort
