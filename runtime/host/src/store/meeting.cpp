// The first agreement of the ranks, over the keys of one store.
//
// place/R is what rank R knows about the job. Rank 0 waits for all places, compares them, and writes the verdict:
// "same", "texts differ", "missing 1, 3", or the error for all. came/R counts the processes that claim rank R, and
// came/R/1, came/R/2 ... are their places: a later one may be R only if all earlier ones have ended. Rank 0 never reads
// the place of a rank beyond its own world size; such a rank compares itself with rank 0 and writes its error as the
// objection, which rank 0 polls and makes the verdict.
#include "store/meeting.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <thread>
#include <tuple>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/farewell.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/message.hpp>

#include "store/farewell.hpp"

namespace cohort::host {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessId, pid, started, space)

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kVerdict = "verdict";
constexpr const char* kRead = "read";
constexpr const char* kObjection = "objection";  // the error of a rank whose place rank 0 may never read
constexpr std::string_view kAllAlike = "same";
constexpr std::string_view kOtherTexts = "texts differ";
constexpr std::string_view kRanksMissing = "missing ";
constexpr std::string_view kFailed = "failed ";          // an error that is no mistake of the user follows
constexpr std::chrono::milliseconds kPollInterval{100};  // between two reads of the objection
constexpr std::chrono::seconds kLongestIntroduction{5};  // of another process that has claimed the same rank

std::string place_key(int rank) {
  return "place/" + std::to_string(rank);
}

/// A rank's view of the job and of its place in it, as it is written to the store.
struct Place {
  int world_size = 0, num_nodes = 0, node_rank = 0, local_world_size = 0;
  uint64_t text = 0;  // its fingerprint
  std::string run_id, who;
  ProcessId process;

  // Returns whether both describe the job alike; the processes may differ.
  bool is_like(const Place& other) const {
    const auto said = [](const Place& p) {
      return std::tie(p.world_size, p.num_nodes, p.node_rank, p.local_world_size, p.text, p.run_id);
    };
    return said(*this) == said(other);
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Place, world_size, num_nodes, node_rank, local_world_size, text, run_id, who,
                                   process)

Place place_from(const std::string& text, int rank) {
  auto place = from_text<Place>(text);
  if (!place) {
    throw UserError("rank " + std::to_string(rank) +
                    " wrote a place in the job that cannot be read; start the same program, built with the same "
                    "cohort, for every rank");
  }
  for (std::string* const line : {&place->run_id, &place->who, &place->process.space}) *line = on_one_line(*line);
  return *place;
}

using Places = std::map<int, Place>;

/// One property of a place that has to be equal on all ranks, or on all ranks of a node.
struct Count {
  std::function<std::string(const Place&)> of;
  bool is_of_a_node;
  const char* mend;  // the end of the error: what to do
};

std::vector<Count> counts() {
  const auto number = [](int n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  return {{[number](const Place& p) { return "counts " + number(p.world_size, "rank"); }, false,
           "give all ranks the same WORLD_SIZE"},
          {[number](const Place& p) { return "counts " + number(p.num_nodes, "node"); }, false,
           "give all ranks the same number of nodes and the same LOCAL_WORLD_SIZE"},
          {[number](const Place& p) { return "counts " + number(p.local_world_size, "rank") + " on this node"; }, true,
           "give all ranks of a node the same LOCAL_WORLD_SIZE"},
          {[](const Place& p) { return "belongs to run " + in_quotes(p.run_id); }, false,
           "start all ranks with one launcher, and each job on a port of its own"}};
}

// Returns an error for the first property that differs: "rank 0 counts 2 ranks, rank 1 counts 3 ranks". Returns "" if
// all are equal.
std::string difference(const Places& places) {
  for (const Count& count : counts()) {
    std::map<int, std::map<std::string, std::vector<int>>> nodes;
    for (const auto& [rank, place] : places) {
      nodes[count.is_of_a_node ? place.node_rank : 0][count.of(place)].push_back(rank);
    }
    for (const auto& [node, ranks] : nodes) {
      if (ranks.size() < 2) continue;
      std::map<int, std::string> by_first;
      for (const auto& [said, who] : ranks) {
        by_first[who.front()] = (who.size() > 1 ? "each of ranks " : "rank ") + join(who) + " " + said;
      }
      std::string text;
      for (const auto& [rank, said] : by_first) text += (text.empty() ? "" : ", ") + said;
      return "the ranks do not fit together: " + text + "; " + count.mend;
    }
  }
  return "";
}

/// Rank 0's part: collects the places of the other ranks.
class Gathering {
 public:
  Gathering(const Meeting& meeting, const Place& own) : meeting_(meeting), store_(meeting.agreement.store) {
    places_.emplace(0, own);
    first_of_node_.emplace(own.node_rank, 0);
  }

  // Waits for all ranks and returns the verdict on them.
  std::string verdict() {
    const auto deadline = Clock::now() + meeting_.agreement.timeout;
    const int world_size = meeting_.agreement.world_size;
    std::vector<int> missing;
    for (int rank = 1; rank < world_size; ++rank) {
      await(rank, deadline);
      if (objection_ || !fits(rank)) return refusal();
    }
    for (int rank = 1; rank < world_size; ++rank) {
      if (has_ended(rank)) await(rank, deadline);  // it ended while others were waited for
      if (objection_) return refusal();
      if (!places_.contains(rank) || has_ended(rank)) missing.push_back(rank);
    }
    if (!missing.empty()) return std::string(kRanksMissing) + join(missing);
    objection_ = store_.try_get(kObjection);
    if (objection_) return refusal();
    const bool same = std::ranges::all_of(places_, [&](const auto& p) { return p.second.text == places_[0].text; });
    return std::string(same ? kAllAlike : kOtherTexts);
  }

  /// Returns the places of the ranks that have come.
  const Places& present() const { return places_; }

 private:
  // Reads the place of a rank once it is there. If it is that of a process that has ended, waits for another process
  // that takes the rank over.
  void await(int rank, Clock::time_point deadline) {
    do {
      if (read_place(rank, deadline) && !has_ended(rank)) return;
      if (has_ended(rank)) std::this_thread::sleep_for(kPollInterval);
      objection_ = store_.try_get(kObjection);
    } while (!objection_ && Clock::now() < deadline);
  }

  bool has_ended(int rank) const {
    const auto place = places_.find(rank);
    return place != places_.end() && state_of(place->second.process, meeting_.process.space) == ProcessState::kGone;
  }

  bool read_place(int rank, Clock::time_point deadline) {
    const auto left = std::max<std::chrono::nanoseconds>(deadline - Clock::now(), std::chrono::nanoseconds(0));
    const auto text = store_.get(place_key(rank), std::min<std::chrono::nanoseconds>(left, kPollInterval));
    if (!text) return false;
    try {
      places_.insert_or_assign(rank, place_from(*text, rank));
    } catch (const UserError& error) {
      objection_ = error.what();                      // for all ranks
      places_.insert_or_assign(rank, places_.at(0));  // it is there and reads the verdict
    }
    return true;
  }

  // Compares the newest place only with rank 0's and with that of the first rank of its node: comparing all with all
  // each time would take minutes with a thousand ranks.
  bool fits(int rank) {
    const auto newest = places_.find(rank);
    if (newest == places_.end()) return true;
    const int first = first_of_node_.try_emplace(newest->second.node_rank, rank).first->second;
    return difference({{0, places_.at(0)}, {first, places_.at(first)}, *newest}).empty();
  }

  // Returns the error. Waits for late ranks before, so that the error names them and they can read it.
  std::string refusal() {
    const auto deadline = Clock::now() + meeting_.for_latecomers;
    do {  // until a round brings no rank that counts more than the ranks before it
      for (int rank = 1, most = most_counted(); rank < most; ++rank) {
        if (!places_.contains(rank)) read_place(rank, std::min(deadline, Clock::now() + kPollInterval));
      }
    } while (std::ssize(places_) < most_counted() && Clock::now() < deadline);
    const std::string text = difference(places_);
    return text.empty() ? on_one_line(*objection_) : text;
  }

  int most_counted() const {
    int most = 0;
    for (const auto& [rank, place] : places_) most = std::max(most, std::min(place.world_size, kMostShown));
    return most;
  }

  static constexpr int kMostShown = 4096;
  const Meeting& meeting_;
  Store& store_;
  Places places_;
  std::map<int, int> first_of_node_;  // ranks, by node
  std::optional<std::string> objection_;
};

// Says that this rank needs the store no more. Rank 0, which usually serves it, then waits for the ranks that it has
// read, but at most for the grace time: a rank that it has not read may say so as well, and stands for none of them.
void leave_meeting(const Agreement& agreement, const Places& awaited = {}) {
  const auto key = [](int rank) { return std::string(kRead) + "/" + std::to_string(rank); };
  agreement.store.set(key(agreement.rank), "");
  auto next = awaited.begin();
  stay_while([&] {
    while (next != awaited.end() && agreement.store.try_get(key(next->first))) ++next;
    return next != awaited.end();
  });
}

// Makes `problem` the verdict and throws it; `failed`: as PeerFailed.
[[noreturn]] void object(const Agreement& agreement, const std::string& problem, bool failed) {
  agreement.store.set(kObjection, (failed ? std::string(kFailed) : "") + problem);
  if (!failed) throw UserError(problem);
  leave_meeting(agreement);  // in place of the process that may have ended
  throw PeerFailed(problem);
}

// Throws unless the process that came with this rank's number earlier has ended. `text`: its place, if it wrote one.
void check_has_ended(const Meeting& meeting, const Place& own, const std::optional<std::string>& text) {
  const Agreement& agreement = meeting.agreement;
  Place earlier;
  if (text) earlier = place_from(*text, agreement.rank);
  const ProcessState state = state_of(earlier.process, own.process.space);
  if (state == ProcessState::kGone && earlier.is_like(own)) return;
  const std::string number = "rank " + std::to_string(agreement.rank);
  const std::string who = (text ? earlier.who : "another process") + " and " + own.who;
  if (state == ProcessState::kGone) {
    object(agreement, number + " was started again with other settings: " + who + "; start all ranks again", true);
  }
  const std::string problem = "two processes say that they are " + number + ": " + who + "; ";
  if (state != ProcessState::kUnknown) object(agreement, problem + "give every process a RANK of its own", false);
  object(agreement,
         problem +
             "whether the first one has ended cannot be seen from here: start all ranks again, each with a RANK "
             "of its own",
         true);
}

std::string came_key(const Agreement& agreement) {
  return "came/" + std::to_string(agreement.rank);
}

// Counts this process among those that claim its rank, and returns the number. Its place is there before it is counted,
// so that others know it even if it ends at that moment; and is written again, because another process that came at the
// same time may have written over it.
int64_t take_turn(const Agreement& agreement, const Place& own) {
  const std::string came = came_key(agreement), text = to_text(own);
  agreement.store.set(came + "/" + std::to_string(agreement.store.add(came, 0) + 1), text);
  const int64_t turn = agreement.store.add(came, 1);
  agreement.store.set(came + "/" + std::to_string(turn), text);
  return turn;
}

// Returns the place of the process that was counted before; nothing if none can be read.
std::optional<std::string> earlier_place(const Agreement& agreement, const Place& own, int64_t turn) {
  const auto deadline = Clock::now() + std::min<std::chrono::nanoseconds>(agreement.timeout, kLongestIntroduction);
  const std::string key = came_key(agreement) + "/" + std::to_string(turn), own_text = to_text(own);
  while (true) {
    const auto text = agreement.store.get(
        key, std::max<std::chrono::nanoseconds>(deadline - Clock::now(), std::chrono::nanoseconds(0)));
    if (!text || *text != own_text) return text;  // else this process wrote it there before the other one was counted
    if (Clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(kPollInterval);
  }
}

// Throws if another process has the same rank, because its place would be taken for this one's. A process that was
// started in place of one that has ended has the rank to itself, as long as the ranks have not met.
void check_number_is_free(const Meeting& meeting, const Place& own) {
  if (!meeting.store_is_fresh) return;
  const Agreement& agreement = meeting.agreement;
  const int64_t turn = take_turn(agreement, own);
  for (int64_t i = 1; i < turn; ++i) check_has_ended(meeting, own, earlier_place(agreement, own, i));
  // Looked at after the processes: one that ended before the verdict cannot have gone on.
  if (turn > 1 && agreement.store.try_get(kVerdict)) {
    throw PeerFailed(own.who +
                     " comes too late: the ranks have met, with a process of this number that has ended; "
                     "start all ranks again");
  }
}

// Returns an error if this rank does not fit to rank 0, or "".
std::string difference_to_rank0(const Agreement& agreement, const Place& own) {
  const std::string text = published_by_rank0(agreement, "its place in the job", place_key(0));
  try {
    return difference({{0, place_from(text, 0)}, {agreement.rank, own}});
  } catch (const UserError& error) {
    return error.what();
  }
}

// Every rank compares itself with rank 0, because rank 0 never reads the place of a rank beyond its own world size.
void check_against_rank0(const Agreement& agreement, const Place& own) {
  const std::string problem = difference_to_rank0(agreement, own);
  if (problem.empty()) return;
  agreement.store.set(kObjection, problem);
  leave_meeting(agreement);
  throw UserError(problem);
}

}  // namespace

bool meet(const Meeting& meeting, const std::string& topic, std::string_view text) {
  const Agreement& agreement = meeting.agreement;
  const Topology& topology = meeting.topology;
  const Place said{topology.world_size, topology.num_nodes, topology.node_rank, topology.local_world_size,
                   fingerprint(text),   topology.run_id,    agreement.who,      meeting.process};
  const Place own = place_from(to_text(said), agreement.rank);  // with the texts that other ranks read
  check_number_is_free(meeting, own);
  agreement.store.set(place_key(agreement.rank), to_text(own));
  Places present;
  if (agreement.rank == 0) {
    Gathering gathering(meeting, own);
    agreement.store.set(kVerdict, gathering.verdict());
    present = gathering.present();
  } else {
    check_against_rank0(agreement, own);
  }
  const std::string verdict = published_by_rank0(agreement, topic, kVerdict);
  if (verdict == kAllAlike || verdict == kOtherTexts) return verdict == kAllAlike;
  if (verdict.starts_with(kRanksMissing)) throw_missing(agreement, topic, verdict.substr(kRanksMissing.size()), kRead);
  leave_meeting(agreement, present);
  if (verdict.starts_with(kFailed)) throw PeerFailed(on_one_line(verdict.substr(kFailed.size())));
  throw UserError(verdict.empty() ? "rank 0 ended this job and gave no reason; look at its log" : on_one_line(verdict));
}

}  // namespace cohort::host
