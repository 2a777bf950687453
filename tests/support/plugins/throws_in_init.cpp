// Breaks the rule that nothing is thrown across the ABI, as a careless C++ plugin would.
#include <stdexcept>

#include <cohort/api/cohort.h>

namespace {

using Init = cohort_status (*)(const cohort_host*) noexcept;

cohort_status init(const cohort_host*) {
  throw std::runtime_error("no licence file");
}

constexpr cohort_strategy_vt kVtable = [] {
  cohort_strategy_vt table{};
  table.struct_size = sizeof table;
  return table;
}();
const cohort_component kStrategy{sizeof(cohort_component),
                                 COHORT_KIND_STRATEGY,
                                 "throws_in_init",
                                 "A strategy for tests",
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 0,
                                 &kVtable,
                                 nullptr};
const cohort_component* const kComponents[] = {&kStrategy, nullptr};

}  // namespace

const cohort_plugin cohort_plugin_0{COHORT_PLUGIN_MAGIC,
                                    sizeof(cohort_plugin),
                                    COHORT_ABI_VERSION,
                                    COHORT_ABI_VERSION,
                                    "org.example.test",
                                    "1.0.0",
                                    "",
                                    "MIT",
                                    kComponents,
                                    reinterpret_cast<Init>(init),
                                    nullptr};
