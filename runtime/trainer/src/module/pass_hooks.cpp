#include "module/pass_hooks.hpp"

#include "module/step_access.hpp"

namespace cohort {

HookedPass::HookedPass(Module& module, const PassHooks& hooks)
    : module_(module),
      hooks_(hooks),
      prefix_(std::string("on_") + hooks.pass),
      batch_start_(prefix_ + "_batch_start"),
      batch_end_(prefix_ + "_batch_end") {}

HookPlace HookedPass::place(const std::string& hook) const {
  const detail::ModulePlace& at = detail::StepAccess::place(module_);
  return {.hook = hook,
          .epoch = detail::StepAccess::is_in_fit(module_) ? std::optional(at.epoch) : std::nullopt,
          .rank = at.rank};
}

HookPlace HookedPass::place(const std::string& hook, const Batch& batch, int64_t index) const {
  HookPlace of_batch = place(hook);
  of_batch.index = index;
  of_batch.batch = &batch;
  return of_batch;
}

void HookedPass::start() {
  const std::string start = prefix_ + "_start", epoch_start = prefix_ + "_epoch_start";
  in_hook(place(start), [&] { (module_.*hooks_.start)(); });
  in_hook(place(epoch_start), [&] { (module_.*hooks_.epoch_start)(); });
}

void HookedPass::batch_start(const Batch& batch, int64_t index) {
  in_hook(place(batch_start_, batch, index), [&] { (module_.*hooks_.batch_start)(batch, index); });
}

void HookedPass::batch_end(const Batch& batch, int64_t index) {
  in_hook(place(batch_end_, batch, index), [&] { (module_.*hooks_.batch_end)(batch, index); });
}

void HookedPass::epoch_end() {
  const std::string epoch_end = prefix_ + "_epoch_end";
  in_hook(place(epoch_end), [&] { (module_.*hooks_.epoch_end)(); });
}

void HookedPass::end(const Metrics& means) {
  const std::string end = prefix_ + "_end";
  in_hook(place(end), [&] { (module_.*hooks_.end)(means); });
}

}  // namespace cohort
