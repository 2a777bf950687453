// Whether the variables of other launchers fit the place that one of them has given to this process.
//
// Launchers may be nested: the outer one starts the inner one once, or once on each node, and leaves its variables to
// the ranks. mpirun and mpiexec start themselves by srun, but for the node where they are. Ranks of one MPI job agree
// under all its names (jsrun and Open MPI, srun --mpi=pmi2). cohort run and torchrun number their ranks as they like,
// and may be tasks of srun that train alone.
#include <array>
#include <string>
#include <vector>

#include "environment/launchers.hpp"

namespace cohort::host {
namespace {

/// The variables by which a launcher gives this rank its number and the number of ranks.
struct Claim {
  Launcher launcher;
  std::string_view rank, size;
};
constexpr std::array<Claim, 4> kClaims{{{Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                        {Launcher::kHydra, "PMI_RANK", "PMI_SIZE"},
                                        {Launcher::kLsf, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
                                        {Launcher::kHorovod, "HOROVOD_RANK", "HOROVOD_SIZE"}}};

const Claim* claim_of(Launcher launcher) {
  for (const Claim& claim : kClaims) {
    if (claim.launcher == launcher) return &claim;
  }
  return nullptr;
}

class Contradictions {
 public:
  Contradictions(const VariableReader& reader, const Topology& topology) : reader_(reader), topology_(topology) {}

  std::vector<std::string> find() {
    const Claim* const own = claim_of(topology_.launcher);
    for (const Claim& other : kClaims) {
      if (other.launcher == topology_.launcher) continue;
      const auto count = reader_.number(other.size, kCount);
      if (count != 1 && count != topology_.num_nodes) compare(other.size, other.rank);
    }
    if (!own) return found_;
    compare("WORLD_SIZE", "RANK");
    const std::string_view tasks = slurm_tasks_variable(reader_);
    const bool is_task = topology_.world_size > 1 && is_slurm_task(reader_);
    const bool is_daemons = reader_.number(tasks, kCount).value_or(1) <= topology_.num_nodes;
    if (is_task && !is_daemons) compare(tasks, "SLURM_PROCID");
    return found_;
  }

 private:
  /// Notes a difference in size, or else in rank.
  void compare(std::string_view size, std::string_view rank) {
    const bool numbers_anew = topology_.launcher == Launcher::kCohort || topology_.launcher == Launcher::kTorchrun;
    const auto count = reader_.number(size, kCount), number = reader_.number(rank, kIndex);
    if (count && *count != topology_.world_size) {
      note(size, "world_size");
    } else if (!numbers_anew && number && *number != topology_.rank) {
      note(rank, "rank");
    }
  }

  void note(std::string_view variable, const char* field) {
    const auto decided = topology_.decided_by.find(field);
    if (decided == topology_.decided_by.end()) return;
    found_.push_back("environment: " + reader_.shown(variable) + " contradicts " + decided->second +
                     "; start the ranks with one launcher, or unset one of them");
  }

  const VariableReader& reader_;
  const Topology& topology_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> contradictions_of_launchers(const VariableReader& reader, const Topology& topology) {
  if (topology.launcher == Launcher::kNone) return {};
  return Contradictions(reader, topology).find();
}

}  // namespace cohort::host
