#include "loop/require_join.hpp"

#include <algorithm>

#include <cohort/api/plugin.h>
#include <cohort/host/error.hpp>
#include <cohort/optimizer_kinds.hpp>

namespace cohort {
namespace {

[[noreturn]] void refuse_join(const std::string& why, const std::string& fix) {
  throw UserError("--uneven=join: " + why + "; " + fix + ", or leave --uneven=join out");
}

}  // namespace

void require_join(const Runtime& runtime, const Module& module, const Optimizers& optimizers) {
  runtime.require_use(COHORT_USE_JOIN);
  if (runtime.options().graph) refuse_join("--graph replays a step that has a batch on every rank", "leave that out");
  if (runtime.options().sync_batchnorm) {
    refuse_join("--sync-batchnorm takes statistics of all ranks in forward, which a rank without a batch does not run",
                "leave that out");
  }
  if (!module.automatic_optimization()) {
    refuse_join(
        "module '" + module.name() + "' steps by hand in training_step, which a rank without a batch does not run",
        "let automatic_optimization() be true");
  }
  if (std::ranges::none_of(optimizers, [](const auto& optimizer) { return needs_closure(*optimizer); })) return;
  refuse_join("an optimizer that evaluates its loss several times in a step (LBFGS) needs a batch on every rank",
              "choose another optimizer");
}

}  // namespace cohort
