#include "meeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <sstream>

#include <cohort/sdk/store_round.hpp>

#include "process_space.hpp"

namespace cohort::mpi {

namespace {

constexpr char kFailure = '!';
constexpr const char* kPlaceRound = "mpi/where";
constexpr int kMostInt = std::numeric_limits<int>::max();

/// What a rank says about itself.
struct Introduction {
  std::string pid;
  std::string machine;
  std::string processes;  // equal for ranks that can ask for each other's process
  std::string cores;

  std::string to_text() const { return pid + '\n' + machine + '\n' + processes + '\n' + cores + '\n'; }
  static Introduction from(const std::string& text) {
    Introduction result;
    std::istringstream lines(text);
    for (std::string* line : {&result.pid, &result.machine, &result.processes, &result.cores}) {
      std::getline(lines, *line);
    }
    return result;
  }
};

Introduction own_introduction() {
  Introduction own;
  own.pid = std::to_string(::getpid());
  const ProcessSpace space = process_space();
  own.machine = space.boot;
  own.processes = space.boot + space.pid_namespace;
  own.cores = std::to_string(::sysconf(_SC_NPROCESSORS_ONLN));
  return own;
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
  std::vector<Introduction> all;
  for (const std::string& text : sdk::store_round(args, "mpi/who", own.to_text(), deadline)) {
    all.push_back(Introduction::from(text));
  }
  for (const Introduction& other : all) {
    const std::size_t rank = peers.size();
    const int number = args.job_ranks ? args.job_ranks[rank] : static_cast<int>(rank);
    const std::string who = "rank " + std::to_string(number);
    const int pid = other.processes == own.processes ? number_from(other.pid, 1, kMostInt, who) : 0;
    const auto beside =
        std::count_if(all.begin(), all.end(), [&](const auto& any) { return any.machine == other.machine; });
    peers.push_back({who, pid, beside > number_from(other.cores, -1, kMostInt, who)});
  }
  return peers;
}

// Returns this process's rank in MPI's world. A failure is thrown, and written for the other ranks in its place.
std::string own_place(const cohort_connect_args& args, Library& library, bool one_at_a_time,
                      Clock::time_point deadline) {
  try {
    library.start(one_at_a_time, deadline - Clock::now());
    return std::to_string(library.rank());
  } catch (const sdk::Error& error) {
    const std::string key = kPlaceRound + std::string("/") + std::to_string(args.rank);
    const std::string answer = sdk::with_size(args.size, kFailure + std::string(error.what()));
    args.store->vt->set(args.store, key.c_str(), answer.data(), answer.size());
    throw;
  }
}

}  // namespace

std::vector<Peer> meet(const cohort_connect_args& args, Library& library, bool one_at_a_time,
                       Clock::time_point deadline) {
  std::vector<Peer> peers = introduce(args, deadline);
  const std::string own = own_place(args, library, one_at_a_time, deadline);
  const std::vector<std::string> places = sdk::store_round(args, kPlaceRound, own, deadline);
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    if (places[rank].empty() || places[rank][0] != kFailure) continue;
    throw sdk::Error(COHORT_UNAVAILABLE, peers[rank].who + " cannot start MPI: " + places[rank].substr(1),
                     {static_cast<int32_t>(rank)});
  }
  std::map<int, const Peer*> known;
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    peers[rank].world_rank = number_from(places[rank], 0, library.size() - 1, peers[rank].who);
    const auto [first, is_new] = known.emplace(peers[rank].world_rank, &peers[rank]);
    if (is_new) continue;
    throw sdk::failed_precondition(first->second->who + " and " + peers[rank].who +
                                   " are not two ranks of one MPI job: both are number " + places[rank] +
                                   " of theirs; start all ranks with one mpirun, each as a process of its own");
  }
  return peers;
}

}  // namespace cohort::mpi
