// How flags and variables are named in the messages of a selection.
#pragma once

#include <string>
#include <string_view>

#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>

namespace cohort::host {

/// COHORT_USE_FORK, after "cannot".
constexpr std::string_view kForkWords = "have ranks forked from the running program";

/// "--devices", "--gpus", "COHORT_DEVICES", "devices in the config file", "devices in the program": where the value
/// came from.
std::string place_of(const Options& options, const std::string& flag);

/// True where the user gave the flag; a default in the program's code gives way to a launcher.
bool is_given(const Options& options, std::string_view flag);

/// "WORLD_SIZE=4 (torchrun)": what decided a field of the topology.
std::string decided_by(const Topology& topology, const std::string& field);

/// "1 device", "2 devices".
std::string counted(int count, const std::string& noun);

}  // namespace cohort::host
