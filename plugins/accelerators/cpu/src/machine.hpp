// What the operating system says about this machine's processor.
#pragma once

#include <cstdint>
#include <string>

namespace cohort::cpu {

/// "AMD EPYC 9654", or "CPU" where the system does not tell.
std::string processor_name();
/// Cores that this process may run on, at least 1.
int32_t usable_cores();
uint64_t memory_bytes();

}  // namespace cohort::cpu
