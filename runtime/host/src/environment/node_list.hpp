// Lists of hosts as schedulers write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "environment/variable_reader.hpp"

namespace cohort::host {

/// Returns the hosts of a list of SLURM, in its order: `n[01-03,7]` is n01, n02, n03, n7; several brackets in one name
/// count like digits, the last one first. Throws UserError for a list that does not parse, or has more than 65,536
/// hosts. `shown` is the list as messages show it.
std::vector<std::string> expand_node_list(std::string_view list, const std::string& shown);

/// Returns the first word of each line of the file that the variable names; empty lines are left out. Throws UserError
/// for what is no regular file, cannot be read, is empty or larger than 4 MiB, or names a host with control characters.
std::vector<std::string> read_host_file(const VariableReader& reader, std::string_view variable);

}  // namespace cohort::host
