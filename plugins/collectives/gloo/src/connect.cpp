#include "connect.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include <cohort/sdk/error.hpp>
#include <cohort/sdk/store_round.hpp>

#include "proof.hpp"

namespace cohort::gloo {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMostWrong = 8;                // attempts until a wrong answer is no stranger's
constexpr milliseconds kFirstLimit{1000};    // of an attempt: a stranger who says nothing costs all of it
constexpr milliseconds kShortestLimit{100};  // if little time is left
constexpr int kAttemptsToDouble = 2;         // the limit: ranks may be slow
constexpr int kReachingShare = 5;  // of the timeout, after which a rank that is not reached has had its chance
constexpr milliseconds kShortestReaching{500};

/// How an attempt has ended for a rank.
struct Outcome {
  enum Kind { kProven, kUnreached, kMissing, kWrong };
  Kind kind = kProven;
  bool is_last = false;  // no time is left for another attempt
  int peer = -1;         // that does not answer, or answers wrongly
  std::string reason{};

  std::string to_text() const {
    return std::to_string(kind) + ' ' + (is_last ? '1' : '0') + ' ' + std::to_string(peer) + ' ' + reason;
  }
  static Outcome from(const std::string& text) {
    Outcome result;
    std::istringstream words(text);
    int kind = kUnreached;
    words >> kind >> result.is_last >> result.peer;
    result.kind = static_cast<Kind>(std::clamp<int>(kind, kProven, kWrong));
    std::getline(words >> std::ws, result.reason);
    return result;
  }
};

class Meshing {
 public:
  Meshing(const cohort_connect_args& args, const std::string& address, Clock::time_point deadline, sdk::Proof proof)
      : args_(args), address_(address), deadline_(deadline), proof_(proof) {}

  /// Makes a mesh, which stays until all ranks are done with it.
  Outcome attempt(int number, std::unique_ptr<Mesh>& mesh) const {
    const milliseconds limit = limit_of(number);
    Outcome outcome;
    bool is_hopeless = false;
    try {
      mesh = std::make_unique<Mesh>(args_.store, "gloo/mesh " + std::to_string(number) + "/", args_.rank, args_.size,
                                    address_, limit);
      const Verdict verdict = prove(*mesh, proof_, args_.rank, args_.size, Clock::now() + limit);
      if (verdict.answer == Answer::kWrong) outcome.kind = Outcome::kWrong;
      if (verdict.answer == Answer::kMissing) outcome.kind = Outcome::kMissing;
      outcome.peer = verdict.peer;
      outcome.reason = verdict.reason;
    } catch (const LinkBroken& broken) {
      outcome.kind = Outcome::kUnreached;
      outcome.reason = broken.what();
      is_hopeless = dynamic_cast<const NoDevice*>(&broken) != nullptr;
    }
    const bool is_known = outcome.kind == Outcome::kWrong && number + 1 >= kMostWrong;
    outcome.is_last = is_hopeless || is_known || Clock::now() + kShortestLimit > end_for(outcome.kind);
    return outcome;
  }

  std::vector<Outcome> share(int number, const Outcome& own) const {
    std::vector<Outcome> all;
    for (const std::string& text :
         sdk::store_round(args_, "gloo/outcome " + std::to_string(number), own.to_text(), deadline_)) {
      all.push_back(Outcome::from(text));
    }
    return all;
  }

  /// Returns the rank that most others accuse of a wrong answer: a rank with another key accuses all others. -1: none.
  int accused(const std::vector<Outcome>& all) const {
    std::map<int, int> accusers;
    for (const Outcome& outcome : all) {
      if (outcome.kind == Outcome::kWrong) ++accusers[outcome.peer];
    }
    int most = -1;
    for (const auto& [rank, count] : accusers) {
      const int before = most < 0 ? 0 : accusers[most];
      if (count > before || (count == before && most == args_.rank)) most = rank;
    }
    return most;
  }

  [[noreturn]] void fail(const std::vector<Outcome>& all) const {
    if (const int rank = accused(all); rank >= 0) {
      throw sdk::Error(COHORT_UNAUTHENTICATED,
                       "gloo: " + name_of(rank) +
                           " does not know the key of this group, or somebody answers in its "
                           "place; give all ranks the secret of one job, and look who else connects to its machine",
                       {rank});
    }
    const auto failed = [](const Outcome& outcome) { return outcome.kind == Outcome::kUnreached; };
    const Outcome& own = all[static_cast<std::size_t>(args_.rank)];
    if (failed(own)) throw sdk::Error(COHORT_UNAVAILABLE, unreached("gloo at " + address_, own));
    const auto other = std::find_if(all.begin(), all.end(), failed);
    if (other != all.end()) {
      throw sdk::Error(COHORT_UNAVAILABLE, unreached(name_of(static_cast<int>(other - all.begin())), *other));
    }
    const auto unanswered =
        std::find_if(all.begin(), all.end(), [](const Outcome& outcome) { return outcome.kind == Outcome::kMissing; });
    throw sdk::Error(COHORT_UNAVAILABLE,
                     "gloo: " + name_of(unanswered->peer) +
                         " does not prove that it has the key of "
                         "this group (" +
                         unanswered->reason + ")",
                     {unanswered->peer});
  }

  std::string name_of(int rank) const {
    const bool is_known = args_.job_ranks && rank >= 0 && rank < args_.size;
    return "rank " + std::to_string(is_known ? args_.job_ranks[rank] : rank);
  }

 private:
  const cohort_connect_args& args_;
  const std::string& address_;
  const Clock::time_point begin_ = Clock::now();
  const Clock::time_point deadline_;
  const sdk::Proof proof_;

  milliseconds limit_of(int number) const {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now());
    const milliseconds longest = std::max(kShortestLimit, left / 3);  // connects, is proved, and tells how it has ended
    milliseconds limit = kFirstLimit;
    for (int before = kAttemptsToDouble; before <= number && limit < longest; before += kAttemptsToDouble) limit *= 2;
    return std::min(limit, longest);
  }
  Clock::time_point end_for(Outcome::Kind kind) const {
    if (kind != Outcome::kUnreached) return deadline_;
    const std::chrono::nanoseconds timeout(args_.timeout_ns);
    return std::min<Clock::time_point>(
        deadline_, begin_ + std::max<std::chrono::nanoseconds>(timeout / kReachingShare, kShortestReaching));
  }
  std::string unreached(const std::string& who, const Outcome& outcome) const {
    return who + " cannot connect to all others (" + outcome.reason +
           "); give gloo,iface=NAME where they reach each other";
  }
};

void say(const sdk::Log& log, const Meshing& meshing, const std::vector<Outcome>& all) {
  if (const int rank = meshing.accused(all); rank >= 0) {
    log.warning("gloo: somebody answered for ", meshing.name_of(rank),
                " without the key of this group; connecting again");
    return;
  }
  const auto failed =
      std::find_if(all.begin(), all.end(), [](const Outcome& outcome) { return outcome.kind != Outcome::kProven; });
  log.debug("gloo connects again: ", failed->reason);
}

}  // namespace

std::unique_ptr<Mesh> connect_mesh(const cohort_connect_args& args, const std::string& address,
                                   Clock::time_point deadline, const sdk::Host& host) {
  if (args.size == 1) return std::make_unique<Mesh>(args.store, "gloo/mesh/", 0, 1, address, kFirstLimit);
  const Meshing meshing(args, address, deadline, host.proof(args));
  for (int number = 0;; ++number) {
    std::unique_ptr<Mesh> mesh;
    const std::vector<Outcome> all = meshing.share(number, meshing.attempt(number, mesh));
    if (std::all_of(all.begin(), all.end(), [](const Outcome& one) { return one.kind == Outcome::kProven; })) {
      return mesh;
    }
    if (std::any_of(all.begin(), all.end(), [](const Outcome& one) { return one.is_last; })) meshing.fail(all);
    if (args.rank == 0) say(host.log(), meshing, all);
  }
}

}  // namespace cohort::gloo
