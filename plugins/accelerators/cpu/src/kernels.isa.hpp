// Compiled once for each instruction set, in namespace COHORT_ISA.
#include <cohort/sdk/portable/adam_kernels.hpp>
#include <cohort/sdk/portable/core_kernels.hpp>
#include <cohort/sdk/portable/minmax_uint8_kernels.hpp>
#include <cohort/sdk/portable/ring_kernels.hpp>

#include "kernels.hpp"

namespace cohort::cpu::COHORT_ISA {

namespace {

struct Isa {};

constexpr KernelTables kTables{sdk::portable::CoreKernels<Isa>::kTable, sdk::portable::MinmaxUint8Kernels<Isa>::kTable,
                               sdk::portable::AdamKernels<Isa>::kTable, sdk::portable::RingKernels<Isa>::kTable};

}  // namespace

const KernelTables* tables() {
  return &kTables;
}

}  // namespace cohort::cpu::COHORT_ISA
