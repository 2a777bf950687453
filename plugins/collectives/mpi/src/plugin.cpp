// The collective `mpi`: ranks that a driver of MPI has started, over whatever network that MPI uses.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cohort/sdk/collective.hpp>

#include "communicator.hpp"
#include "environment/driver.hpp"
#include "meeting.hpp"
#include "processes.hpp"
#include "sum.hpp"

namespace {

namespace sdk = cohort::sdk;
using cohort::mpi::Clock;
using cohort::mpi::Communicator;
using cohort::mpi::Library;
using cohort::mpi::Network;
using cohort::mpi::Peer;
using cohort::mpi::Sums;

Sums sums_of(std::string_view text) {
  if (text == "ordered") return Sums::kOrdered;
  return text == "mpi" ? Sums::kMpi : Sums::kAuto;
}

// Calls a function of MPI's that makes a communicator; looks after the processes of the other ranks meanwhile.
void call_while_connecting(Library& library, const char* name, const std::function<int()>& function,
                           const std::vector<Peer>& peers, Clock::time_point deadline) {
  std::vector<int> pids;
  for (const Peer& peer : peers) pids.push_back(peer.pid);
  const cohort::Processes processes(std::move(pids));
  const auto look = [&] {
    const std::vector<int> gone = processes.gone();
    if (gone.empty()) return;
    const std::string& who = peers[static_cast<std::size_t>(gone.front())].who;
    throw sdk::Error(COHORT_UNAVAILABLE, "the process of " + who + " has ended while ranks connected", gone);
  };
  const int code = library.call_blocking(name, function, deadline, look);
  if (code == MPI_SUCCESS) return;
  throw sdk::Error(COHORT_UNAVAILABLE, "MPI cannot make a communicator (" + cohort::mpi::text_of_error(code) + ")");
}

// Ranks in their order, which need not be all of MPI's world nor in its order.
MPI_Comm communicator_of(Library& library, const std::vector<Peer>& peers, Clock::time_point deadline) {
  auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  std::vector<int> ranks;
  for (const Peer& peer : peers) ranks.push_back(peer.world_rank);
  const auto make = [ranks, made] {
    MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    ::MPI_Comm_group(MPI_COMM_WORLD, &world);
    int code = ::MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
    if (code == MPI_SUCCESS) code = ::MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, made.get());
    if (code == MPI_SUCCESS) code = ::MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
    if (group != MPI_GROUP_NULL) ::MPI_Group_free(&group);
    ::MPI_Group_free(&world);
    return code;
  };
  call_while_connecting(library, "MPI_Comm_create_group", make, peers, deadline);
  return *made;
}

bool is_one_machine(Library& library, MPI_Comm comm, const std::vector<Peer>& peers, Clock::time_point deadline) {
  auto is_one = std::make_shared<bool>(false);
  const auto find = [comm, is_one] { return cohort::mpi::find_one_machine(comm, *is_one); };
  call_while_connecting(library, "MPI_Comm_split_type", find, peers, deadline);
  return *is_one;
}

class Mpi : public sdk::Collective<Mpi, Communicator> {
 public:
  static constexpr bool kRoundsOnce = true;

  void create(const sdk::Options& options) {
    one_at_a_time_ = options.text("threads") == "serialized";
    sums_ = sums_of(options.text("sums"));
    const std::string isa(options.text("isa"));
    float_sum_ = cohort::mpi::float_sum_for(isa);
    if (!float_sum_) {
      throw sdk::invalid_argument("this processor or this build of the mpi plugin has no " + isa +
                                  " instructions; use isa=auto");
    }
  }

  std::unique_ptr<Communicator> connect(const cohort_connect_args& args) {
    const std::chrono::nanoseconds timeout(args.timeout_ns);
    const auto deadline = Clock::now() + timeout;
    Library& library = Library::of_process();
    std::vector<Peer> peers = cohort::mpi::meet(args, library, one_at_a_time_, deadline);
    const MPI_Comm comm = communicator_of(library, peers, deadline);
    const bool can_share = args.size > 1 && is_one_machine(library, comm, peers, deadline);
    auto network = std::make_shared<Network>(library, comm, args.rank, std::move(peers), timeout);
    return std::make_unique<Communicator>(std::move(network), args.name ? args.name : "", sums_, float_sum_, can_share);
  }

 private:
  bool one_at_a_time_ = false;
  Sums sums_ = Sums::kAuto;
  cohort::mpi::FloatSum float_sum_ = nullptr;
};

/// Returns whether the ranks can meet through MPI.
bool has_mpi() {
  int is_initialised = 0;
  if (!cohort::mpi::has_driver()) ::MPI_Initialized(&is_initialised);
  return cohort::mpi::has_driver() || is_initialised;
}

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_DEVICE_TYPE && query.value() != COHORT_DEVICE_CPU) {
    return sdk::no("it moves CPU memory only", "choose --accelerator=cpu, or one with pinned memory");
  }
  if (query.use() == COHORT_USE_RANKS && !has_mpi()) {
    return sdk::no("no MPI driver started this process", "start the ranks with mpirun, or choose shm or gloo");
  }
  return sdk::yes_to_known(query);
}

constexpr cohort_option kOptions[] = {
    sdk::option("sums", "enum(auto|ordered|mpi)", "auto",
                "ordered: left to right in rank order; mpi: by MPI's own collectives; auto: ordered up to "
                "16 ranks"),
    sdk::option("threads", "enum(multiple|serialized)", "multiple",
                "what MPI is asked for; with serialized, or where it has no more, its calls are made one at a time"),
    sdk::option("isa", "enum(auto|baseline|avx2|avx512)", "auto", "instructions that sums use"),
};

constexpr cohort_component kMpi =
    sdk::collective<Mpi>("mpi", "ranks started by mpirun, over MPI").options(kOptions).supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.mpi", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kMpi)
