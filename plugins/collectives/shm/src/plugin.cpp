// The collective `shm`: ranks of one machine, through shared memory.
#include <memory>
#include <string>

#include <cohort/sdk/collective.hpp>

#include "communicator.hpp"
#include "connect.hpp"
#include "reduce.hpp"

namespace {

namespace sdk = cohort::sdk;

class Shm : public sdk::Collective<Shm, cohort::shm::Communicator> {
 public:
  static constexpr bool kRankOrdered = true;
  static constexpr bool kRoundsOnce = true;

  void create(const sdk::Options& options) {
    const std::string isa(options.text("isa"));
    reduce_ = cohort::shm::reduce_for(isa);
    if (!reduce_) {
      throw sdk::invalid_argument("this processor or this build of the shm plugin has no " + isa +
                                  " instructions; use isa=auto");
    }
  }

  std::unique_ptr<cohort::shm::Communicator> connect(const cohort_connect_args& args) {
    return cohort::shm::connect(args, reduce_);
  }

 private:
  cohort::shm::ReduceFunction reduce_ = nullptr;
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_DEVICE_TYPE && query.value() != COHORT_DEVICE_CPU) {
    return sdk::no("it moves CPU memory only", "choose --accelerator=cpu, or one with pinned memory");
  }
  if (query.use() == COHORT_USE_NODES) {
    return sdk::no("it connects the ranks of one machine", "choose --collective=hier or gloo");
  }
  if (query.use() == COHORT_USE_RANKS && query.value() > cohort::shm::kMaxRanks) {
    return sdk::no("it connects at most 256 ranks", "choose --collective=gloo");
  }
  return sdk::yes_to_known(query);
}

constexpr cohort_option kOptions[] = {
    sdk::option("isa", "enum(auto|baseline|avx2|avx512)", "auto", "instructions that sums use"),
};

constexpr cohort_component kShm =
    sdk::collective<Shm>("shm", "ranks of one machine, through shared memory").options(kOptions).supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.shm", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kShm)
