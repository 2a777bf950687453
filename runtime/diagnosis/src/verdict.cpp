#include <cohort/diagnosis/verdict.hpp>

#include <algorithm>
#include <map>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

constexpr int kEcho = static_cast<int>(ExitCode::kPeerFailed);

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

// In which every rank takes part before any of them is done.
bool needs_every_rank(const Operation& operation) {
  const bool is_of_all = operation.communicator == "default/world" || operation.communicator == "control";
  return is_of_all && operation.name != "broadcast" && operation.name != "reduce" && operation.name != "exchange";
}

// The last sign of life of ranks that say nothing.
std::string last_common(const std::vector<Operation>& operations) {
  const Operation* last = nullptr;
  for (const Operation& one : operations) {
    if (one.is_done() && needs_every_rank(one) && (!last || one.ended >= last->ended)) last = &one;
  }
  return last ? ", last seen in " + describe(*last) : "";
}

const LastWords* words_of(const Evidence& evidence, size_t rank) {
  if (rank == evidence.rank) return &evidence.own;
  return evidence.words[rank] ? &*evidence.words[rank] : nullptr;
}

// Returns whether the rank has failed by itself, as this one has: with the same mistake.
bool failed_alike(const Evidence& evidence, size_t rank) {
  const auto& words = evidence.words[rank];
  return rank != evidence.rank && words && !words->in_operation && words->exit_code != kEcho &&
         words->error == evidence.own.error;
}

// Of other ranks, which are no mere echo.
std::vector<std::string> failures(const Evidence& evidence, bool in_operation) {
  std::vector<std::string> found;
  for (size_t rank = 0; rank < evidence.peers.size(); ++rank) {
    if (rank == evidence.rank || !evidence.words[rank]) continue;
    const LastWords& words = *evidence.words[rank];
    if (words.in_operation != in_operation || words.exit_code == kEcho || failed_alike(evidence, rank)) continue;
    found.push_back(describe(evidence.peers[rank]) + " failed: " + words.error);
  }
  return found;
}

template <class Rank>
std::string in_words(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return (ranks.size() > 1 ? "ranks " : "rank ") + text;
}

/// The ranks that needed another one and failed.
struct Waiters {
  std::vector<size_t> ranks;
  bool lost_connection = false;
};

Waiters waiters_of(const Evidence& evidence, size_t rank) {
  Waiters waiters;
  for (size_t other = 0; other < evidence.peers.size(); ++other) {
    const LastWords* const words = words_of(evidence, other);
    if (!words) continue;
    for (const Operation& one : words->operations) {
      if (std::ranges::find(one.peers, static_cast<int>(rank)) == one.peers.end()) continue;
      if (waiters.ranks.empty() || waiters.ranks.back() != other) waiters.ranks.push_back(other);
      waiters.lost_connection |= one.status == "UNAVAILABLE";
    }
  }
  return waiters;
}

std::string condition(const Evidence& evidence, size_t rank) {
  const Waiters waiters = waiters_of(evidence, rank);
  const std::string waited = waiters.ranks.empty() ? "" : ", waited for by " + in_words(waiters.ranks);
  switch (evidence.states[rank]) {
    case ProcessState::kGone:
      // Rank 0 serves the store: who ends after it has nobody to tell why.
      return evidence.heard_all || rank == 0 ? " is gone (it was killed, or ended without a word)"
                                             : " has ended (what it said is lost with the store)";
    case ProcessState::kStopped:
      return " is stopped (SIGSTOP, or a debugger)";
    case ProcessState::kRunning:
      return " runs but has not failed: it is busy elsewhere" + waited;
    case ProcessState::kUnknown:
      break;
  }
  if (waiters.lost_connection) return " is gone: its connection to " + in_words(waiters.ranks) + " broke";
  return " says nothing: it is gone, stopped or busy" + waited;
}

std::vector<std::string> ranks_in_state(const Evidence& evidence, ProcessState state) {
  std::vector<std::string> found;
  for (size_t rank = 0; rank < evidence.peers.size(); ++rank) {
    if (words_of(evidence, rank) || evidence.states[rank] != state) continue;
    found.push_back(describe(evidence.peers[rank]) + condition(evidence, rank) + last_common(evidence.own.operations));
  }
  return found;
}

std::vector<std::string> lost_ranks(const Evidence& evidence) {
  auto lost = ranks_in_state(evidence, ProcessState::kGone);
  for (auto& stopped : ranks_in_state(evidence, ProcessState::kStopped)) lost.push_back(std::move(stopped));
  return lost;
}

std::vector<std::string> silent_ranks(const Evidence& evidence) {
  if (!evidence.heard_all) {
    return {describe(evidence.peers[0]) + ", or whoever serves the store, does not answer" +
            last_common(evidence.own.operations)};
  }
  auto silent = ranks_in_state(evidence, ProcessState::kRunning);
  for (auto& other : ranks_in_state(evidence, ProcessState::kUnknown)) silent.push_back(std::move(other));
  return silent;
}

struct Call {
  std::string text;
  std::vector<size_t> ranks;
};

// "rank 0 called barrier" or "ranks 1, 2 called barrier"
std::string describe(const Call& call) {
  return in_words(call.ranks) + " called " + call.text;
}

// The first operation of each communicator that ranks call differently: what follows differs as well.
std::vector<std::string> differences(const Evidence& evidence) {
  std::map<std::pair<std::string, uint64_t>, std::map<std::string, Call>> operations;
  for (size_t rank = 0; rank < evidence.peers.size(); ++rank) {
    const LastWords* const words = words_of(evidence, rank);
    if (!words) continue;
    for (const Operation& one : words->operations) {
      Call& call = operations[{one.communicator, one.number}][one.call];
      if (call.ranks.empty()) call.text = one.call + (has_purpose(one) ? " for " + one.purpose : "");
      call.ranks.push_back(rank);
    }
  }
  std::vector<std::string> found;
  std::string reported;
  for (const auto& [key, calls] : operations) {
    if (calls.size() == 1 || key.first == reported) continue;
    reported = key.first;
    std::map<size_t, std::string> texts;  // by first rank
    for (const auto& [ignored, call] : calls) texts[call.ranks.front()] = describe(call);
    std::string text;
    for (const auto& [ignored, one] : texts) text += (text.empty() ? "" : ", ") + one;
    found.push_back("ranks differ in operation #" + std::to_string(key.second) + " of " + key.first + ": " + text);
  }
  return found;
}

// Where a rank was when it gave up: its first operation that is not done.
const Operation* last_unfinished(const std::vector<Operation>& operations) {
  const Operation* first = nullptr;
  for (const Operation& one : operations) {
    if (!one.is_done() && (!first || one.begun < first->begun)) first = &one;
  }
  return first;
}

std::vector<std::string> places(const Evidence& evidence) {
  std::vector<std::string> found;
  const Operation* const own = last_unfinished(evidence.own.operations);
  for (size_t rank = 0; rank < evidence.peers.size(); ++rank) {
    if (rank == evidence.rank || !evidence.words[rank]) continue;
    const Operation* const theirs = last_unfinished(evidence.words[rank]->operations);
    if (!theirs || (own && own->communicator == theirs->communicator && own->number == theirs->number)) continue;
    const std::string waits = theirs->peers.empty() ? "" : ", waiting for " + in_words(theirs->peers);
    found.push_back("rank " + std::to_string(rank) + " was in " + describe(*theirs) + waits);
  }
  return found;
}

}  // namespace

std::string describe(const Peer& peer) {
  const std::string rank = "rank " + std::to_string(peer.rank);
  return peer.pid == 0 ? rank : rank + " (pid " + std::to_string(peer.pid) + " on " + peer.host + ")";
}

Verdict judge(const Evidence& evidence) {
  std::vector<std::string> causes = failures(evidence, /*in_operation=*/false);
  const auto add = [&](const std::vector<std::string>& more) { causes.insert(causes.end(), more.begin(), more.end()); };
  add(lost_ranks(evidence));
  Verdict verdict;
  bool is_shared = false;  // what this rank says is the cause then
  for (size_t rank = 0; rank < evidence.peers.size(); ++rank) is_shared |= failed_alike(evidence, rank);
  if (causes.empty() && is_shared) return verdict;
  if (causes.empty()) {
    add(differences(evidence));
    verdict.ranks_disagree = !causes.empty();
  }
  if (causes.empty()) add(failures(evidence, /*in_operation=*/true));
  if (causes.empty()) {
    add(silent_ranks(evidence));
    add(places(evidence));
  }
  verdict.causes = join(causes);
  return verdict;
}

std::string sentence_of(const Verdict& verdict, const std::string& own_error) {
  const std::string alike = " failed: " + own_error;  // as another rank has published, and the only cause
  const size_t place = verdict.causes.find(alike.substr(0, alike.find(':') + 1));
  if (place != std::string::npos && verdict.causes.substr(place) == alike) return own_error;
  return verdict.causes.empty() ? own_error : verdict.causes + "; seen here as: " + own_error;
}

}  // namespace cohort
