// The collective `nccl`: memory of GPUs, by the NCCL that LibTorch brings.
#include <memory>
#include <string>

#include <cohort/sdk/collective.hpp>

#include "communicator.hpp"
#include "environment/variables.hpp"
#include "meeting.hpp"

namespace {

namespace sdk = cohort::sdk;
using namespace cohort::nccl;

class NcclCollective : public sdk::Collective<NcclCollective, Communicator> {
 public:
  // Kernels of two communicators that two ranks launch in different orders can wait for each other for ever.
  static constexpr bool kOneOrder = true;

  void create(const sdk::Options& options) { own_sums_ = options.text("sums") == "nccl"; }

  std::unique_ptr<Communicator> connect(const cohort_connect_args& args) {
    const std::chrono::nanoseconds timeout(args.timeout_ns);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    const Nccl nccl = open_nccl();
    const auto around = std::make_shared<Surroundings>(Surroundings{nccl, open_cuda(nccl), args.device_index, timeout});
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
