#include "accelerator/kernel_tables.hpp"

#include <cstring>

#include <cohort/host/plugin_host.hpp>

#include "given/given_struct.hpp"

namespace cohort::host {
namespace {

using KernelFunction = void (*)();

template <class Table>
struct Names;
template <>
struct Names<cohort_kernels_core_1> {
  static constexpr const char* kTable = "cohort_kernels_core_1";
  static constexpr const char* kId = COHORT_KERNELS_CORE_ID;
  static constexpr const char* kKernels[] = {"fill",     "copy",       "scale", "axpby",    "cast",
                                             "sum_of_n", "square_sum", "dot",   "found_inf"};
};
template <>
struct Names<cohort_kernels_minmax_uint8_1> {
  static constexpr const char* kTable = "cohort_kernels_minmax_uint8_1";
  static constexpr const char* kId = COHORT_KERNELS_MINMAX_UINT8_ID;
  static constexpr const char* kKernels[] = {"minmax_uint8.encode", "minmax_uint8.decode", "minmax_uint8.decode_add"};
};
template <>
struct Names<cohort_kernels_adam_1> {
  static constexpr const char* kTable = "cohort_kernels_adam_1";
  static constexpr const char* kId = COHORT_KERNELS_ADAM_ID;
  static constexpr const char* kKernels[] = {"adam.step"};
};
template <>
struct Names<cohort_kernels_ring_1> {
  static constexpr const char* kTable = "cohort_kernels_ring_1";
  static constexpr const char* kId = COHORT_KERNELS_RING_ID;
  static constexpr const char* kKernels[] = {"change"};
};

template <class Table>
std::string table_problem(const Table& given) {
  using N = Names<Table>;
  constexpr uint32_t kLeast = COHORT_END(Table, accelerator);
  if (given.struct_size % sizeof(KernelFunction) != 0) {
    return "has a " + std::string(N::kTable) + " of " + std::to_string(given.struct_size) +
           " bytes, which end within a kernel; set its struct_size to sizeof(" + N::kTable + ")";
  }
  auto problem = length_problem(&given, {given.struct_size, kLeast, sizeof given}, N::kTable);
  if (problem.empty()) problem = reserved_problem(given.reserved0, N::kTable);
  if (problem.empty() && given.accelerator) {
    problem = "sets the accelerator of its " + std::string(N::kTable) + ", which is the host's to set; leave it null";
  }
  return problem;
}

template <class Table>
void put_own(Table& table, cohort_accelerator* a, const std::string& what, std::string& lacking) {
  using N = Names<Table>;
  constexpr size_t kFirst = COHORT_END(Table, accelerator);
  static_assert(sizeof(Table) == kFirst + std::size(N::kKernels) * sizeof(KernelFunction));
  const auto* const given = a->vt->kernels ? static_cast<const Table*>(a->vt->kernels(a, N::kId)) : nullptr;
  Table own{};
  if (given) {
    if (const std::string problem = table_problem(*given); !problem.empty()) throw PluginRefused(what + " " + problem);
    own = sdk::own_copy(*given);
  }
  for (size_t i = 0; i < std::size(N::kKernels); ++i) {
    const size_t offset = kFirst + i * sizeof(KernelFunction);
    KernelFunction function = nullptr;
    std::memcpy(&function, reinterpret_cast<const char*>(&own) + offset, sizeof function);
    if (function) {
      std::memcpy(reinterpret_cast<char*>(&table) + offset, &function, sizeof function);
    } else {
      lacking += (lacking.empty() ? "" : ", ") + std::string(N::kKernels[i]);
    }
  }
}

}  // namespace

const void* KernelTables::find(std::string_view id) const {
  if (id == COHORT_KERNELS_CORE_ID) return &core;
  if (id == COHORT_KERNELS_MINMAX_UINT8_ID) return &minmax_uint8;
  if (id == COHORT_KERNELS_ADAM_ID) return &adam;
  return id == COHORT_KERNELS_RING_ID ? &ring : nullptr;
}

bool is_own_kernels_id(std::string_view id) {
  return id.substr(0, 7) == "cohort.";
}

std::string put_own_kernels(KernelTables& tables, cohort_accelerator* a, const std::string& what) {
  std::string lacking;
  put_own(tables.core, a, what, lacking);
  put_own(tables.minmax_uint8, a, what, lacking);
  put_own(tables.adam, a, what, lacking);
  put_own(tables.ring, a, what, lacking);
  return lacking;
}

}  // namespace cohort::host
