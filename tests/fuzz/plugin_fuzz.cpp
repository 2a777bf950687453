// Whatever a plugin's descriptor says of itself, in memory that is as long as it says: it is refused with a sentence,
// or can be shown and used.
#include <cohort/host/option_table.hpp>
#include <cohort/host/plugin_host.hpp>

#include "descriptor.hpp"
#include "plugin_host/descriptor_checks.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace cohort;
  fuzz::Input input(data, size);
  fuzz::Descriptor descriptor(input);
  const std::string problem = host::descriptor_problem(descriptor.plugin(), "ring");
  if (!problem.empty()) {
    fuzz::require_sentence(problem);
    return 0;
  }
  for (const auto kind :
       {host::Kind::kStrategy, host::Kind::kCollective, host::Kind::kAccelerator, host::Kind::kLogger}) {
    const cohort_component* component = host::component_of(descriptor.plugin(), static_cast<int32_t>(kind));
    if (!component) continue;
    const std::span options(component->options, component->num_options);
    host::check_options(options, {}, "it");
    fuzz::require(!host::option_table_text(options).empty(), "no table of options");
    for (auto variant = component->variants; variant && *variant; ++variant) fuzz::require_sentence(*variant);
  }
  return 0;
}
