// The kernels that the host itself has. Compiled without contraction: they give the bits of the plugin `cpu`.
#include <cohort/sdk/portable/adam_kernels.hpp>
#include <cohort/sdk/portable/core_kernels.hpp>
#include <cohort/sdk/portable/minmax_uint8_kernels.hpp>
#include <cohort/sdk/portable/ring_kernels.hpp>

#include "accelerator/kernel_tables.hpp"

namespace cohort::host {
namespace {

struct AnyProcessor {};

}  // namespace

KernelTables portable_kernels(cohort_accelerator* a) {
  KernelTables tables{
      sdk::portable::CoreKernels<AnyProcessor>::kTable, sdk::portable::MinmaxUint8Kernels<AnyProcessor>::kTable,
      sdk::portable::AdamKernels<AnyProcessor>::kTable, sdk::portable::RingKernels<AnyProcessor>::kTable};
  tables.core.accelerator = tables.minmax_uint8.accelerator = a;
  tables.adam.accelerator = tables.ring.accelerator = a;
  return tables;
}

}  // namespace cohort::host
