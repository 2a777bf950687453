#include "accelerator/kernel_tables.hpp"

#include <cohort/host/plugin_host.hpp>

#include "accelerator/accelerator.hpp"
#include "given/given_struct.hpp"

namespace cohort::host {
namespace {

/// For each table: its name in C, its id, its least size, and its functions with their names in the log.
template <class Table>
struct Names;
template <>
struct Names<cohort_kernels_core_1> {
  using Table = cohort_kernels_core_1;
  static constexpr const char* kTable = "cohort_kernels_core_1";
  static constexpr const char* kId = COHORT_KERNELS_CORE_ID;
  static constexpr uint32_t kLeast = COHORT_KERNELS_CORE_SIZE_1_0;
  static constexpr auto kTableOf = &KernelTables::core;
  template <class Visit>
  static constexpr void for_each(Visit&& visit) {
    visit.template operator()<&Table::fill>("fill");
    visit.template operator()<&Table::copy>("copy");
    visit.template operator()<&Table::scale>("scale");
    visit.template operator()<&Table::axpby>("axpby");
    visit.template operator()<&Table::cast>("cast");
    visit.template operator()<&Table::sum_of_n>("sum_of_n");
    visit.template operator()<&Table::square_sum>("square_sum");
    visit.template operator()<&Table::dot>("dot");
    visit.template operator()<&Table::found_inf>("found_inf");
  }
};
template <>
struct Names<cohort_kernels_minmax_uint8_1> {
  using Table = cohort_kernels_minmax_uint8_1;
  static constexpr const char* kTable = "cohort_kernels_minmax_uint8_1";
  static constexpr const char* kId = COHORT_KERNELS_MINMAX_UINT8_ID;
  static constexpr uint32_t kLeast = COHORT_KERNELS_MINMAX_UINT8_SIZE_1_0;
  static constexpr auto kTableOf = &KernelTables::minmax_uint8;
  template <class Visit>
  static constexpr void for_each(Visit&& visit) {
    visit.template operator()<&Table::encode>("minmax_uint8.encode");
    visit.template operator()<&Table::decode>("minmax_uint8.decode");
    visit.template operator()<&Table::decode_add>("minmax_uint8.decode_add");
  }
};
template <>
struct Names<cohort_kernels_adam_1> {
  static constexpr const char* kTable = "cohort_kernels_adam_1";
  static constexpr const char* kId = COHORT_KERNELS_ADAM_ID;
  static constexpr uint32_t kLeast = COHORT_KERNELS_ADAM_SIZE_1_0;
  static constexpr auto kTableOf = &KernelTables::adam;
  template <class Visit>
  static constexpr void for_each(Visit&& visit) {
    visit.template operator()<&cohort_kernels_adam_1::step>("adam.step");
  }
};
template <>
struct Names<cohort_kernels_ring_1> {
  static constexpr const char* kTable = "cohort_kernels_ring_1";
  static constexpr const char* kId = COHORT_KERNELS_RING_ID;
  static constexpr uint32_t kLeast = COHORT_KERNELS_RING_SIZE_1_0;
  static constexpr auto kTableOf = &KernelTables::ring;
  template <class Visit>
  static constexpr void for_each(Visit&& visit) {
    visit.template operator()<&cohort_kernels_ring_1::change>("change");
  }
};

/// Calls the plugin, and the host's own for what the plugin does not know.
template <auto Slot>
struct NativeKernel;
template <class Table, class... Args, cohort_status (*Table::*Slot)(cohort_accelerator*, Args...) noexcept>
struct NativeKernel<Slot> {
  static cohort_status call(cohort_accelerator* a, Args... args) noexcept {
    const Kernels& kernels = Accelerator::of(a).all_kernels();
    constexpr auto kTableOf = Names<Table>::kTableOf;
    const cohort_status status = (kernels.own.*kTableOf.*Slot)(a, args...);
    if (status != COHORT_UNIMPLEMENTED) return status;
    const std::string refusal = HostObject::of(a->host).take_message(status);
    const cohort_status hosts = (kernels.hosts.*kTableOf.*Slot)(a, args...);
    return hosts == COHORT_UNIMPLEMENTED ? a->host->fail(a->host, hosts, refusal.c_str()) : hosts;
  }
};

template <class Table>
std::string table_problem(const Table& given) {
  using N = Names<Table>;
  if (given.struct_size % sizeof(void*) != 0) {
    return "has a " + std::string(N::kTable) + " of " + std::to_string(given.struct_size) +
           " bytes, which end within a kernel; set its struct_size to sizeof(" + N::kTable + ")";
  }
  auto problem = length_problem(&given, {given.struct_size, N::kLeast, sizeof given, true}, N::kTable);
  if (problem.empty()) problem = reserved_problem(given.reserved0, N::kTable);
  if (problem.empty() && given.accelerator) {
    problem = "sets the accelerator of its " + std::string(N::kTable) + ", which is the host's to set; leave it null";
  }
  return problem;
}

template <class Table>
consteval size_t num_kernels() {
  size_t count = 0;
  Names<Table>::for_each([&]<auto Slot>(const char*) { ++count; });
  return count;
}

template <class Table>
void put_own(Kernels& kernels, cohort_accelerator* a, const std::string& what, std::string& lacking) {
  using N = Names<Table>;
  static_assert(sizeof(Table) == COHORT_END(Table, accelerator) + num_kernels<Table>() * sizeof(void*));
  const auto* const given = a->vt->kernels ? static_cast<const Table*>(a->vt->kernels(a, N::kId)) : nullptr;
  Table& own = kernels.own.*N::kTableOf;
  if (given) {
    if (const std::string problem = table_problem(*given); !problem.empty()) throw PluginRefused(what + " " + problem);
    own = sdk::own_copy(*given);
  }
  N::for_each([&]<auto Slot>(const char* name) {
    if (own.*Slot) {
      kernels.all.*N::kTableOf.*Slot = NativeKernel<Slot>::call;
    } else {
      lacking += (lacking.empty() ? "" : ", ") + std::string(name);
    }
  });
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

std::string put_own_kernels(Kernels& kernels, cohort_accelerator* a, const std::string& what) {
  std::string lacking;
  kernels.all = kernels.hosts;
  put_own<cohort_kernels_core_1>(kernels, a, what, lacking);
  put_own<cohort_kernels_minmax_uint8_1>(kernels, a, what, lacking);
  put_own<cohort_kernels_adam_1>(kernels, a, what, lacking);
  put_own<cohort_kernels_ring_1>(kernels, a, what, lacking);
  return lacking;
}

}  // namespace cohort::host
