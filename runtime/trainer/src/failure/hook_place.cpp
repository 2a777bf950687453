#include "failure/hook_place.hpp"

#include <cxxabi.h>

#include <exception>
#include <sstream>

#include <c10/util/Exception.h>

#include <cohort/torch_error.hpp>
#include <cohort/trainer.hpp>

namespace cohort {
namespace {

constexpr size_t kShownTensors = 16;

std::string description_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  if (!tensor.is_cpu()) text << " on " << tensor.device();
  return text.str();
}

/// Puts the tensors of a batch into words, each with the path that leads to it.
class BatchText {
 public:
  explicit BatchText(const Batch& batch) { add("", batch); }

  std::string text() const {
    return shown_ <= kShownTensors ? text_ : text_ + ", and " + std::to_string(shown_ - kShownTensors) + " more";
  }

 private:
  void add(const std::string& path, const Value& value) {
    if (value.is_list()) {
      for (size_t i = 0; i < value.size(); ++i) add(path + "[" + std::to_string(i) + "]", value[i]);
    } else if (value.is_map()) {
      for (const auto& [key, item] : value.entries()) add(path + "[\"" + key + "\"]", item);
    } else if (++shown_ <= kShownTensors) {
      text_ += (text_.empty() ? "" : ", ") + path + (path.empty() ? "" : " ") +
               (value.is_tensor() ? description_of(value.tensor()) : "nothing");
    }
  }

  std::string text_;
  size_t shown_ = 0;
};

struct GrowingText {
  std::string text;
  GrowingText& operator<<(std::string_view more) {
    text += more;
    return *this;
  }
  GrowingText& operator<<(int64_t number) { return *this << std::string_view(std::to_string(number)); }
};

template <class Text>
void tell(const HookPlace& place, Text& text) {
  text << place.hook;
  if (!place.callback.empty()) text << " of callback '" << place.callback << "'";
  if (place.epoch) text << ", epoch " << *place.epoch;
  if (place.index) text << ", batch " << *place.index;
  if (place.rank) text << ", rank " << int64_t{*place.rank};
  if (place.replica) text << ", replica " << static_cast<int64_t>(*place.replica);
}

std::string before(const HookPlace& place) {
  GrowingText text;
  tell(place, text);
  return text.text + ": ";
}

std::string after(const HookPlace& place) {
  return place.batch ? "\nbatch: " + BatchText(*place.batch).text() : "";
}

// A failure of its own by then, which std::throw_with_nested makes of the one that is being handled.
template <class Kind>
[[noreturn]] void throw_with(const HookPlace& place, const std::string& message) {
  std::throw_with_nested(Kind(before(place) + message + after(place)));
}

[[noreturn]] void throw_torch_error(const HookPlace& place, const c10::Error& error) {
  const Error reported = error_of(error, "", place.more_pieces);
  if (reported.code() == ExitCode::kUserMistake) throw_with<UserError>(place, reported.what());
  throw_with<TrainingFailed>(place, reported.what());
}

// Ends the process, with the report of the rank, by throwing out of noexcept: callers of the hook hold batches, which
// cannot be freed any more.
[[noreturn]] void end_here(const HookPlace& place, const c10::Error& error) noexcept {
  throw_torch_error(place, error);
}

}  // namespace

void put_in_words(const void* place, host::TextInRoom& text) {
  tell(*static_cast<const HookPlace*>(place), text);
}

void throw_from(const HookPlace& place) {
  try {
    throw;
  } catch (const std::nested_exception&) {
    throw;
  } catch (const PlacedError&) {
    throw;
  } catch (const UserError& error) {
    throw_with<UserError>(place, error.what());
  } catch (const TrainingFailed& error) {
    throw_with<TrainingFailed>(place, error.what());
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    if (is_device_lost(error)) end_here(place, error);
    throw_torch_error(place, error);
  } catch (const std::exception& error) {
    throw_with<TrainingFailed>(place, error.what());
  } catch (const Interrupted&) {
    throw;
  } catch (const RanksNeeded&) {
    throw;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    throw_with<TrainingFailed>(place, host::name_of_unknown_exception());
  }
}

void throw_from_backward(const HookPlace& place) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    if (is_device_lost(error)) end_here(place, error);
    const std::string_view text = error.what_without_backtrace();
    if (text.find("backward through the graph a second time") == std::string_view::npos)
      throw_torch_error(place, error);
    throw_with<UserError>(place,
                          "backward has run through this loss before; return the loss from training_step without "
                          "calling backward() on it, because fit does, and compute it anew in each call");
  } catch (...) {
    throw_from(place);
  }
}

}  // namespace cohort
