#include "attention.hpp"

#include <ATen/Context.h>

#include <cohort/host/error.hpp>

namespace numerics {

void choose_attention(const std::string& kind) {
  if (kind == "fused") return;
  if (kind != "math") throw cohort::UserError("--attention=" + kind + " is unknown; choose fused or math");
  at::Context& context = at::globalContext();
  context.setSDPUseFlash(false);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseCuDNN(false);
}

}  // namespace numerics
