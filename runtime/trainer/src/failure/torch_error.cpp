#include "failure/torch_error.hpp"

#include <cohort/host/in_quotes.hpp>

namespace cohort {

Error error_of(const c10::Error& error, const std::string& who) {
  const std::string what = who + error.what_without_backtrace();
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) == nullptr) return TrainingFailed(what);
  return UserError(host::on_one_line(what) +
                   "; choose a smaller batch with more --accumulate-grad-batches, or --strategy=sharded, which divides "
                   "the optimizer's state");
}

}  // namespace cohort
