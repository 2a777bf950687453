// CUDA's variables for the devices that a process sees.
//
// The process that starts ranks shows them the chosen devices alone, as users of CUDA expect, unless somebody has
// chosen before it: a scheduler or the user. In such a rank ids count what it sees.
#pragma once

#include <map>
#include <string>

#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>
#include <cohort/host/selection.hpp>

namespace cohort {

/// Returns the variables for ranks that this process starts.
std::map<std::string, std::string> variables_of_devices(const host::Selection& selection,
                                                        const host::Variables& variables);

/// Returns the devices as this process counts them: ids from 0 if the starting process has shown it these alone.
/// Changes the environment, so call it before threads begin and devices are counted: CUDA numbers devices as nvidia-smi
/// does, unless the user wants another order, and shows those that are given by names alone. Throws UserError for names
/// that CUDA_VISIBLE_DEVICES leaves out.
Devices seen_devices(Devices devices, const host::Variables& variables);

/// Gives cuBLAS workspaces of its own for each stream, with which its results are the same in every run; without them
/// LibTorch refuses deterministic matrix products. A choice of the user's stays. Call it before threads begin.
void make_cublas_deterministic();

/// Returns "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1]" for a rank on a GPU.
std::string line_of_devices(const host::Selection& selection, const host::Topology& topology,
                            const host::Variables& variables);

}  // namespace cohort
