// A collective that leaves the key of each group in the group's store, by rank, and moves its bytes over shm.
#include <memory>
#include <string>
#include <utility>

#include <cohort/sdk/collective.hpp>
#include <cohort/sdk/host.hpp>
#include <cohort/sdk/own_copy.hpp>

namespace {

namespace sdk = cohort::sdk;

class KeyedComm : public sdk::Communicator<KeyedComm> {
 public:
  explicit KeyedComm(sdk::OwnedComm over) : over_(std::move(over)) {}
  int rank() const { return over_.rank(); }
  int size() const { return over_.size(); }
  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream) {
    over_.exchange(messages, stream);
  }

 private:
  sdk::OwnedComm over_;
};

struct Keyed : sdk::Collective<Keyed, KeyedComm> {
  std::unique_ptr<KeyedComm> connect(const cohort_connect_args& args) {
    const std::string key = "seen/" + std::to_string(args.size) + "/" + std::to_string(args.rank);
    sdk::check(args.store->vt->set(args.store, key.c_str(), args.key, args.key_nbytes));
    const std::string name = std::string(args.name) + "/over";
    cohort_connect_args group = sdk::own_copy(args);
    group.name = name.c_str();
    group.num_nodes = 1;  // its ranks are threads of one process
    return std::make_unique<KeyedComm>(host().open_comm("shm", group));
  }
};

constexpr cohort_component kKeyed = sdk::collective<Keyed>("keyed", "leaves its groups' keys in their stores");

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.test.keyed", "1.0.0", "cohort", "Apache-2.0", kKeyed)
