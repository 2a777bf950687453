// The random numbers that the ranks' models draw: dropout, noise, sampling in a loss. Data has seeds of its own.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace cohort {

class Runtime;

/// Seeds this rank's generators, of the CPU and of its devices, by --seed, the rank and `parts` (the number of the
/// fit), so that ranks draw other numbers; with --rank-noise=alike all draw those of rank 0. Each device of a rank
/// draws its own.
void seed_model(const Runtime& runtime, std::initializer_list<uint64_t> parts);
/// Seeds them by --seed and `parts` alone, for code between trainings, which all ranks run alike.
void seed_program(const Runtime& runtime, std::initializer_list<uint64_t> parts);

}  // namespace cohort
