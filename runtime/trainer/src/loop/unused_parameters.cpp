#include "loop/unused_parameters.hpp"

#include <algorithm>

#include <cohort/host/in_quotes.hpp>

namespace cohort {

void warn_of_unused(host::Log& log, const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  if (names.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i ? ", " : "") + host::in_quotes(names[i]);
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  log.warning("no loss of the first epoch depended on " + text +
              ", which the optimizer has: use them in the step, freeze them with requires_grad_(false), or look "
              "whether forward calls the modules that are registered, or copies of them");
}

}  // namespace cohort
