#include "meeting.hpp"

#include <unistd.h>

#include <charconv>
#include <cstring>
#include <map>
#include <sstream>

#include <cohort/sdk/store_round.hpp>

#include "environment/variables.hpp"
#include "process_space.hpp"

namespace cohort::nccl {
namespace {

constexpr int kAllowsRanksOnOneGpu = 23003;

// Describes a rank to the others: each field is one line of text.
struct Introduction {
  std::string version, gpu, space;  // processes of one space see each other
  std::string pid;

  std::string to_text() const { return version + "\n" + gpu + "\n" + space + "\n" + pid + "\n"; }
  static Introduction from(const std::string& text) {
    Introduction result;
    std::istringstream lines(text);
    for (std::string* line : {&result.version, &result.gpu, &result.space, &result.pid}) std::getline(lines, *line);
    return result;
  }
};

std::string number_of(const cohort_connect_args& args, int rank) {
  return std::to_string(args.job_ranks ? args.job_ranks[rank] : rank);
}

[[noreturn]] void throw_nonsense(const std::string& who) {
  throw sdk::Error(COHORT_DATA_LOSS, "nccl read something else than the words of " + who +
                                         " from the store; start the same cohort on all ranks");
}

int pid_of(const Introduction& one, const std::string& who) {
  int pid = 0;
  const char* const end = one.pid.data() + one.pid.size();
  const auto [stop, failure] = std::from_chars(one.pid.data(), end, pid);
  if (failure != std::errc{} || stop != end || pid <= 0) throw_nonsense(who);
  return pid;
}

Introduction own_introduction(const Surroundings& around, const cohort_connect_args& args) {
  const auto [boot, pids] = process_space();
  char bus[32] = "";
  around.cuda.check(around.cuda.DeviceGetPCIBusId(bus, sizeof bus, around.device), "cudaDeviceGetPCIBusId");
  const std::string machine = boot.empty() ? std::to_string(args.node_rank) : boot;
  const std::string space = pids.empty() || boot.empty() ? "" : boot + " " + pids;
  return {around.nccl.version_text(), machine + " " + bus, space, std::to_string(::getpid())};
}

std::string way_out(const Nccl& nccl) {
  const std::string staged = "choose --collective=shm or gloo, through which its memory is staged";
  if (nccl.version < kAllowsRanksOnOneGpu) {
    return "give each rank a GPU, " + staged + ", or use NCCL 2.30.3 or newer with " + kAllowRanksOnOneGpu + "=1";
  }
  return std::string("give each rank a GPU, set ") + kAllowRanksOnOneGpu + "=1, or " + staged;
}

void check(const Nccl& nccl, const cohort_connect_args& args, const std::vector<Introduction>& all) {
  std::map<std::string, int> ranks;  // by GPU
  for (int rank = 0; rank < args.size; ++rank) {
    const Introduction& one = all[static_cast<std::size_t>(rank)];
    if (one.version != nccl.version_text()) {
      throw sdk::failed_precondition("rank " + number_of(args, rank) + " has NCCL " + one.version + " and rank " +
                                     number_of(args, args.rank) + " has " + nccl.version_text() +
                                     "; start all ranks with the same LibTorch");
    }
    const auto [first, is_new] = ranks.emplace(one.gpu, rank);
    if (is_new || (nccl.version >= kAllowsRanksOnOneGpu && ranks_may_share_a_gpu())) continue;
    throw sdk::failed_precondition("ranks " + number_of(args, first->second) + " and " + number_of(args, rank) +
                                   " have the same GPU, which NCCL " + nccl.version_text() + " refuses; " +
                                   way_out(nccl));
  }
}

}  // namespace

ncclUniqueId meet(Surroundings& around, const cohort_connect_args& args,
                  std::chrono::steady_clock::time_point deadline) {
  ncclUniqueId id{};
  if (args.rank == 0) {
    if (const ncclResult_t result = around.nccl.GetUniqueId(&id); result != ncclSuccess) {
      throw sdk::Error(COHORT_INTERNAL, "NCCL cannot begin: " + around.nccl.text_of(result, nullptr));
    }
  }
  const Introduction own = own_introduction(around, args);
  const std::string id_text(id.internal, sizeof id.internal);
  std::vector<Introduction> all;
  for (const std::string& text : sdk::store_round(args, "ranks", own.to_text() + id_text, deadline)) {
    if (text.size() < sizeof id.internal) {
      throw_nonsense("rank " + number_of(args, static_cast<int>(all.size())));
    }
    if (all.empty()) std::memcpy(id.internal, text.data() + text.size() - sizeof id.internal, sizeof id.internal);
    all.push_back(Introduction::from(text.substr(0, text.size() - sizeof id.internal)));
  }
  check(around.nccl, args, all);
  for (int rank = 0; rank < args.size; ++rank) {
    const Introduction& one = all[static_cast<std::size_t>(rank)];
    const std::string name = "rank " + number_of(args, rank);
    const int pid = one.space == own.space && !own.space.empty() ? pid_of(one, name) : 0;
    around.peers.push_back({pid, name + " (pid " + std::to_string(pid) + ")"});
  }
  return id;
}

}  // namespace cohort::nccl
