// A collective plugin, called directly through the C ABI.
//
//   all_reduce_plugin --plugin=FILE [--memory=alloc|ordinary] [--options=key:value,...] + contest flags
#include <sstream>

#include "contest.hpp"
#include "fork_store.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"

namespace {

using namespace cohort::test;
using cohort::bench::Contest;

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
    comm_.free(shared_);
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

}  // namespace

int main(int argc, char** argv) {
  ForkStore store;
  return cohort::bench::compete_in_processes(argc, argv, [&](const Contest& contest) {
    const auto& component = component_of(open_plugin(contest.option("plugin")), COHORT_KIND_COLLECTIVE);
    const OptionValues options = parse_options(contest.option("options"));
    const bool from_alloc = contest.option("memory", "alloc") == "alloc";
    return [&component, &store, options, from_alloc, size = contest.ranks](int rank) {
      RankComm comm(component, store.handle(), rank, size, std::chrono::seconds(60), options);
      return std::make_unique<PluginRank>(std::move(comm), from_alloc && comm.vt().alloc);
    };
  });
}
