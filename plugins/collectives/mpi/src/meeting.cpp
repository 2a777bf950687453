#include "meeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include <cohort/sdk/store_round.hpp>

namespace cohort::mpi {

namespace {

constexpr char kFailure = '!';
constexpr int kMostInt = std::numeric_limits<int>::max();
constexpr std::chrono::seconds kTimeToSayWhy{2};

/// What a rank says about itself.
struct Introduction {
  std::string host, pid;
  std::string machine;
  std::string processes;  // equal for ranks that can ask for each other's process
  std::string cores;

  std::string to_text() const { return host + '\n' + pid + '\n' + machine + '\n' + processes + '\n' + cores + '\n'; }
  static Introduction from(const std::string& text) {
    Introduction result;
    std::istringstream lines(text);
    for (std::string* line : {&result.host, &result.pid, &result.machine, &result.processes, &result.cores}) {
      std::getline(lines, *line);
    }
    return result;
  }
};

Introduction own_introduction() {
  Introduction own;
  std::array<char, 256> text{};
  own.host = ::gethostname(text.data(), text.size() - 1) == 0 ? text.data() : "unknown host";
  own.pid = std::to_string(::getpid());
  std::ifstream("/proc/sys/kernel/random/boot_id") >> own.machine;
  text.fill(0);
  own.processes = own.machine + (::readlink("/proc/self/ns/pid", text.data(), text.size() - 1) > 0 ? text.data() : "");
  own.cores = std::to_string(::sysconf(_SC_NPROCESSORS_ONLN));
  return own;
}

std::vector<Introduction> exchange_introductions(const cohort_connect_args& args, const Introduction& own,
                                                 Clock::time_point deadline) {
  std::vector<Introduction> all;
  for (const std::string& text : sdk::store_round(args, "mpi/who", own.to_text(), deadline)) {
    all.push_back(Introduction::from(text));
  }
  return all;
}

/// A number that a rank has written, from `lowest` to `highest`.
int number_from(const std::string& text, int lowest, int highest, const std::string& who) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure == std::errc{} && stop == end && number >= lowest && number <= highest) return number;
  throw sdk::Error(COHORT_DATA_LOSS, who + " wrote '" + text +
                                         "' into the job's store where mpi expects a number from " +
                                         std::to_string(lowest) + " to " + std::to_string(highest) +
                                         "; start all ranks with one mpirun and the same cohort");
}

std::vector<Peer> introduce(const cohort_connect_args& args, Clock::time_point deadline) {
  const Introduction own = own_introduction();
  std::vector<Peer> peers;
  const std::vector<Introduction> all = exchange_introductions(args, own, deadline);
  for (const Introduction& other : all) {
    const std::size_t rank = peers.size();
    const int number = args.job_ranks ? args.job_ranks[rank] : static_cast<int>(rank);
    const std::string who = "rank " + std::to_string(number) + " (pid " + other.pid + " on " + other.host + ")";
    const int pid = other.processes == own.processes ? number_from(other.pid, 1, kMostInt, who) : 0;
    const auto beside =
        std::count_if(all.begin(), all.end(), [&](const auto& any) { return any.machine == other.machine; });
    peers.push_back({who, pid, other.machine == own.machine, beside > number_from(other.cores, -1, kMostInt, who)});
  }
  return peers;
}

std::string own_place(Library& library, bool one_at_a_time, Clock::time_point deadline) {
  try {
    library.start(one_at_a_time, deadline - Clock::now());
    return std::to_string(library.rank());
  } catch (const sdk::Error& error) {
    return kFailure + std::to_string(error.status()) + " " + error.what();
  }
}

// Rank 0 may serve the store: it stays until the others have heard as well.
void await_hearing(const cohort_connect_args& args) {
  try {
    sdk::store_round(args, "mpi/heard", "", Clock::now() + kTimeToSayWhy);
  } catch (const sdk::Error&) {
    // Whoever did not come to hear it says what it knows.
  }
}

[[noreturn]] void fail(const Peer& peer, const std::string& answer) {
  std::istringstream text(answer.substr(1));
  cohort_status status = COHORT_INTERNAL;
  std::string reason;
  text >> status >> std::ws;
  std::getline(text, reason);
  if (status <= COHORT_OK || status > COHORT_UNAUTHENTICATED) status = COHORT_DATA_LOSS;
  throw sdk::Error(status, peer.who + ": " + reason);
}

}  // namespace

std::vector<Peer> meet(const cohort_connect_args& args, Library& library, bool one_at_a_time,
                       Clock::time_point deadline) {
  std::vector<Peer> peers = introduce(args, deadline);
  const std::string own = own_place(library, one_at_a_time, deadline);
  const std::vector<std::string> places = sdk::store_round(args, "mpi/where", own, deadline + kTimeToSayWhy);
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    if (places[rank].empty() || places[rank][0] != kFailure) continue;
    await_hearing(args);
    fail(peers[rank], places[rank]);
  }
  std::map<int, const Peer*> known;
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    peers[rank].world_rank = number_from(places[rank], 0, library.size() - 1, peers[rank].who);
    const auto [first, is_new] = known.emplace(peers[rank].world_rank, &peers[rank]);
    if (is_new) continue;
    await_hearing(args);
    throw sdk::failed_precondition(first->second->who + " and " + peers[rank].who +
                                   " are not two ranks of one MPI job: both are number " + places[rank] +
                                   " of theirs; start all ranks with one mpirun, each as a process of its own");
  }
  return peers;
}

}  // namespace cohort::mpi
