// For any environment and command line, each is read or refused: a topology that is read is a valid place in a job. The
// input is a list of "NAME=VALUE" and "--flag=value", separated by NUL bytes.
#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>

#include "fuzz.hpp"

namespace {

using namespace cohort;

void check_topology(const host::Variables& variables) {
  const host::Topology topology = host::detect_topology(variables);
  const auto counts = [](int index, int count) { return index >= 0 && index < count; };
  const bool is_placed = topology.launcher != host::Launcher::kNone;  // else the number of nodes is an option
  const bool has_place = counts(topology.rank, topology.world_size) &&
                         counts(topology.local_rank, topology.local_world_size) &&
                         (!is_placed || counts(topology.node_rank, topology.num_nodes));
  const std::string table = host::topology_text(topology);
  fuzz::require(has_place && topology.local_world_size <= topology.world_size, "no place in a job:\n" + table);
  static const std::string table_of_nothing = host::topology_text(host::detect_topology({}));
  fuzz::require(std::ranges::count(table, '\n') == std::ranges::count(table_of_nothing, '\n'),
                "a value breaks the table:\n" + table);
}

/// Fails unless the report throws nothing, and finds a problem where detect_topology does.
void check_report(const host::Variables& variables) {
  const host::EnvironmentReport report = host::inspect_environment(variables);
  std::string thrown;
  try {
    host::detect_topology(variables);
  } catch (const UserError& error) {
    thrown = error.what();
  }
  const std::string reported = report.problems.empty() ? "" : report.problems.front();
  fuzz::require(thrown.empty() == reported.empty(), "thrown: " + thrown + "\nreported: " + reported);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  host::OptionSources sources{"program", {}, {}, {{"epochs", "10", "an option of the program"}}};
  while (!input.is_done()) {
    const std::string word = input.text();
    const std::size_t equals = word.find('=');
    const bool is_argument = word.starts_with('-') || equals == std::string::npos;
    if (is_argument && word.find("config") == std::string::npos) sources.arguments.push_back(word);
    if (!is_argument) sources.environment.insert_or_assign(word.substr(0, equals), word.substr(equals + 1));
  }
  sources.environment.erase("COHORT_CONFIG");  // another target tries files
  fuzz::accepts<UserError>([&] { check_topology(sources.environment); });
  check_report(sources.environment);
  fuzz::accepts<UserError>([&] {
    try {
      host::parse_options(sources, {});
    } catch (const host::HelpRequested&) {
    }
  });
  return 0;
}
