// A collective plugin, called directly through the C ABI.
//
//   all_reduce_plugin --plugin=FILE [--memory=alloc|ordinary] [--options=key:value,...] + contest flags
//   mpirun -n 2 all_reduce_plugin --launcher=mpirun ...   with its ranks, not with processes that are forked
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "contest.hpp"
#include "fork_store.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"

namespace {

using namespace cohort::test;
using cohort::bench::Contest;
using cohort::bench::MakeContestant;

class PluginRank final : public cohort::bench::Contestant {
 public:
  PluginRank(RankComm comm, bool from_alloc) : comm_(std::move(comm)), from_alloc_(from_alloc) {}
  ~PluginRank() override { release(); }
  PluginRank(const PluginRank&) = delete;
  PluginRank& operator=(const PluginRank&) = delete;

  float* memory(uint64_t nbytes) override {
    if (!from_alloc_) return Contestant::memory(nbytes);
    release();
    shared_ = static_cast<float*>(comm_.alloc(nbytes));
    return shared_;
  }

  void all_reduce(float* values, uint64_t count) override {
    comm_.all_reduce(values, values, COHORT_FLOAT32, count, COHORT_REDUCE_SUM);
  }

 private:
  void release() {
    if (!shared_) return;
    comm_.barrier();
    comm_.release(shared_);
  }

  RankComm comm_;
  const bool from_alloc_;
  float* shared_ = nullptr;
};

OptionValues parse_options(const std::string& text) {
  OptionValues values;
  std::istringstream list(text);
  for (std::string option; std::getline(list, option, ',');) {
    const auto colon = option.find(':');
    if (colon == std::string::npos) throw std::invalid_argument("'" + option + "' is not key:value");
    values[option.substr(0, colon)] = option.substr(colon + 1);
  }
  return values;
}

MakeContestant prepare(const Contest& contest, ForkStore& store, int ranks) {
  const auto& component = component_of(open_plugin(contest.option("plugin")), COHORT_KIND_COLLECTIVE);
  const OptionValues options = parse_options(contest.option("options"));
  const bool from_alloc = contest.option("memory", "alloc") == "alloc";
  return [&component, &store, options, from_alloc, ranks](int rank) {
    RankComm comm(component, store.handle(), rank, ranks, std::chrono::seconds(60), options);
    return std::make_unique<PluginRank>(std::move(comm), from_alloc && comm.vt().alloc);
  };
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  if (!value) throw std::invalid_argument(std::string("--launcher=mpirun: there is no ") + name);
  return value;
}

int compete_under_mpirun(const Contest& contest) {
  const int rank = std::stoi(variable("OMPI_COMM_WORLD_RANK")), ranks = std::stoi(variable("OMPI_COMM_WORLD_SIZE"));
  ForkStore store(std::filesystem::path(variable("PMIX_SERVER_TMPDIR")) / "contest", rank == 0);
  cohort::bench::compete(rank, ranks, contest, *prepare(contest, store, ranks)(rank));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const Contest contest = cohort::bench::parse_contest(argc, argv);
  if (!contest.option("launcher").empty()) return compete_under_mpirun(contest);
  ForkStore store;
  return cohort::bench::compete_in_processes(argc, argv,
                                             [&](const Contest& given) { return prepare(given, store, given.ranks); });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 2;
}
