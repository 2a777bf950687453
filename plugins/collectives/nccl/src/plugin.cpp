// The collective `nccl`: memory of GPUs, by the NCCL that LibTorch brings.
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include <cohort/sdk/collective.hpp>
#include <cohort/sdk/store_round.hpp>

#include "communicator.hpp"
#include "environment/variables.hpp"

namespace {

namespace sdk = cohort::sdk;
using namespace cohort::nccl;

constexpr int kAllowsRanksOnOneGpu = 23003;
// Returns what names the machine, also where several nodes or containers are on it.
std::string machine_of(const cohort_connect_args& args) {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? std::to_string(args.node_rank) : id;
}

// Returns what names this rank's GPU among those of all machines.
std::string gpu_of(const Surroundings& around, const cohort_connect_args& args) {
  char bus[32] = "";
  around.cuda.check(around.cuda.DeviceGetPCIBusId(bus, sizeof bus, around.device), "cudaDeviceGetPCIBusId");
  return machine_of(args) + " " + bus;
}

class NcclCollective : public sdk::Collective<NcclCollective, Communicator> {
 public:
  // Kernels of two communicators that two ranks launch in different orders can wait for each other for ever.
  static constexpr bool kOneOrder = true;

  void create(const sdk::Options& options) { own_sums_ = options.text("sums") == "nccl"; }

  std::unique_ptr<Communicator> connect(const cohort_connect_args& args) {
    const std::chrono::nanoseconds timeout(args.timeout_ns);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    const Nccl nccl = open_nccl();
    const auto around =
        std::make_shared<const Surroundings>(Surroundings{nccl, open_cuda(nccl), args.device_index, timeout});
    const OnDevice on(around->cuda, around->device);
    const std::string variables = variables_of_nccl();
    if (args.rank == 0) log().info("NCCL ", nccl.version_text(), variables.empty() ? "" : ", with " + variables);
    const ncclUniqueId id = meet(*around, args, deadline);
    auto family = std::make_shared<Family>(host(), args, own_sums_, around);
    auto link = std::make_shared<Link>(around, family->name, id, args.rank, args.size);
    return std::make_unique<Communicator>(std::move(family), std::move(link));
  }

 private:
  bool own_sums_ = false;

  // All ranks say which GPU they have and which NCCL; rank 0 says where to connect.
  static ncclUniqueId meet(const Surroundings& around, const cohort_connect_args& args,
                           std::chrono::steady_clock::time_point deadline) {
    ncclUniqueId id{};
    if (args.rank == 0) {
      if (const ncclResult_t result = around.nccl.GetUniqueId(&id); result != ncclSuccess) {
        throw sdk::Error(COHORT_INTERNAL, "NCCL cannot begin: " + around.nccl.text_of(result, nullptr));
      }
    }
    const std::string gpu = around.nccl.version_text() + "\n" + gpu_of(around, args) + "\n";
    auto values = sdk::store_round(args, "ranks", gpu + std::string(id.internal, sizeof id.internal), deadline);
    std::memcpy(id.internal, values[0].data() + values[0].size() - sizeof id.internal, sizeof id.internal);
    for (std::string& value : values) value.resize(value.size() - sizeof id.internal);
    check(around.nccl, args, values);
    return id;
  }

  static void check(const Nccl& nccl, const cohort_connect_args& args, const std::vector<std::string>& values) {
    const auto name = [&](int rank) { return std::to_string(args.job_ranks ? args.job_ranks[rank] : rank); };
    std::map<std::string, int> ranks;
    for (int rank = 0; rank < args.size; ++rank) {
      const std::string& value = values[static_cast<std::size_t>(rank)];
      const std::string version = value.substr(0, value.find('\n'));
      if (version != nccl.version_text()) {
        throw sdk::failed_precondition("rank " + name(rank) + " has NCCL " + version + " and rank " + name(args.rank) +
                                       " has " + nccl.version_text() + "; start all ranks with the same LibTorch");
      }
      const auto [first, is_new] = ranks.emplace(value, rank);
      if (is_new || (nccl.version >= kAllowsRanksOnOneGpu && ranks_may_share_a_gpu())) continue;
      throw sdk::failed_precondition("ranks " + name(first->second) + " and " + name(rank) +
                                     " have the same GPU, which NCCL " + nccl.version_text() + " refuses; " +
                                     way_out(nccl));
    }
  }
  static std::string way_out(const Nccl& nccl) {
    const std::string staged = "choose --collective=shm or gloo, through which its memory is staged";
    if (nccl.version < kAllowsRanksOnOneGpu) {
      return "give each rank a GPU, " + staged + ", or use NCCL 2.30.3 or newer with " + kAllowRanksOnOneGpu + "=1";
    }
    return std::string("give each rank a GPU, set ") + kAllowRanksOnOneGpu + "=1, or " + staged;
  }
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_GRAPH) return sdk::yes();
  if (query.use() != COHORT_USE_DEVICE_TYPE) return sdk::yes_to_known(query);
  constexpr const char* kOthers = "choose --collective=shm or gloo";
  if (query.value() == COHORT_DEVICE_CPU) return sdk::no("it moves memory of GPUs only", kOthers);
  if (has_nccl_for(static_cast<int32_t>(query.value()))) return sdk::yes();
  if (query.value() != COHORT_DEVICE_CUDA) return sdk::no("it moves memory of NVIDIA's GPUs only", kOthers);
  return sdk::no("NCCL is not installed (libnccl.so.2)", kOthers);
}

constexpr cohort_option kOptions[] = {
    sdk::option(
        "sums", "enum(exact|nccl)", "exact",
        "sums of 16-bit types: rounded once, by kernels of the accelerator; or NCCL's own, rounded at every hop"),
};

constexpr cohort_component kNccl =
    sdk::collective<NcclCollective>("nccl", "GPUs, on any machines, by NCCL").options(kOptions).supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.nccl", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kNccl)
