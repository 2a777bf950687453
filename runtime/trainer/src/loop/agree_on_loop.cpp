// The options were compared when the ranks met; what is compared here may come from the program instead.
#include "loop/agree_on_loop.hpp"

#include <optional>
#include <string>

#include <cohort/host/in_quotes.hpp>

#include "callbacks/built_in.hpp"

namespace cohort {
namespace {

std::string limit_text(const std::optional<int64_t>& limit) {
  return limit ? std::to_string(*limit) : "none";
}

/// Returns what decides by which metric, or "none".
std::string text_of_deciding(const std::vector<std::shared_ptr<Callback>>& callbacks) {
  std::string text;
  for (const auto& callback : callbacks) {
    for (const AwaitedMetric& metric : callback->awaited_metrics()) {
      text += (text.empty() ? "" : ", ") + callback->name() + " by " + host::in_quotes(metric.name);
    }
  }
  return text.empty() ? "none" : text;
}

}  // namespace

void agree_on_loop(Runtime& runtime, const LoopLimits& limits, const std::vector<Loader>& validation,
                   const Optimizers& optimizers, const std::vector<std::shared_ptr<Callback>>& callbacks) {
  const std::string seconds = limits.max_time ? std::to_string(limits.max_time->count()) : "none";
  const bool validates = limits.validate && limits.validation.count != 0;
  std::vector<std::shared_ptr<Callback>> deciding = callbacks;
  for (auto& callback : callbacks_of_schedules(optimizers, callbacks)) deciding.push_back(std::move(callback));
  runtime.agree("loop",
                "max-epochs = " + limit_text(limits.max_epochs) + "\nmax-steps = " + limit_text(limits.max_steps) +
                    "\nmax-time = " + seconds +
                    "\nvalidation loaders = " + std::to_string(validates ? validation.size() : 0) +
                    "\ncallbacks that decide by a metric = " + text_of_deciding(deciding) + "\n",
                "ranks train for different times; give every rank the same limits, the same data and the same "
                "callbacks that decide by a metric");
}

}  // namespace cohort
