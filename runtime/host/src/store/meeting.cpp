// The first agreement of the ranks, over the keys of one store.
//
// place/R is what rank R knows about the job. Rank 0 waits for all places, compares them, and writes the verdict:
// "same", "texts differ", "missing 1, 3", or the error for all. came/R counts the processes that claim rank R. Rank 0
// never reads the place of a rank beyond its own world size; such a rank compares itself with rank 0 and writes its
// error as the objection, which rank 0 polls and makes the verdict.
#include <cohort/host/meeting.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "store/farewell.hpp"

namespace cohort::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kVerdict = "verdict";
constexpr const char* kRead = "read";
constexpr const char* kObjection = "objection";  // the error of a rank whose place rank 0 may never read
constexpr std::string_view kAllAlike = "same";
constexpr std::string_view kOtherTexts = "texts differ";
constexpr std::string_view kRanksMissing = "missing ";
constexpr std::chrono::milliseconds kPollInterval{100};  // between two reads of the objection

std::string place_key(int rank) {
  return "place/" + std::to_string(rank);
}

/// What a rank knows about the job and its place in it.
struct Place {
  int world_size = 0, num_nodes = 0, node_rank = 0, local_world_size = 0;
  uint64_t text = 0;  // its fingerprint
  std::string run_id, who;

  std::string to_text() const {
    std::ostringstream out;
    out << world_size << ' ' << num_nodes << ' ' << node_rank << ' ' << local_world_size << ' ' << text << '\n'
        << on_one_line(run_id) << '\n'
        << on_one_line(who) << '\n';
    return out.str();
  }
};

Place place_from(const std::string& text, int rank) {
  Place place;
  std::istringstream in(text);
  std::string rest;
  in >> place.world_size >> place.num_nodes >> place.node_rank >> place.local_world_size >> place.text;
  if (!std::getline(in, rest) || !std::getline(in, place.run_id) || !std::getline(in, place.who)) {
    throw UserError("rank " + std::to_string(rank) +
                    " wrote a place in the job that cannot be read; start the same program, built with the same "
                    "cohort, for every rank");
  }
  return place;
}

using Places = std::map<int, Place>;

/// One property of a place that has to be equal on all ranks.
struct Count {
  std::function<std::string(const Place&)> of;  // "" if the property does not concern this rank
  const char* mend;                             // the end of the error: what to do
};

std::vector<Count> counts(int node) {
  const auto number = [](int n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  return {{[number](const Place& p) { return "counts " + number(p.world_size, "rank"); },
           "give all ranks the same WORLD_SIZE"},
          {[number](const Place& p) { return "counts " + number(p.num_nodes, "node"); },
           "give all ranks the same number of nodes and the same LOCAL_WORLD_SIZE"},
          {[number, node](const Place& p) {
             return p.node_rank != node ? "" : "counts " + number(p.local_world_size, "rank") + " on this node";
           },
           "give all ranks of a node the same LOCAL_WORLD_SIZE"},
          {[](const Place& p) { return "belongs to run " + in_quotes(p.run_id); },
           "start all ranks with one launcher, and each job on a port of its own"}};
}

// Returns an error for the first property that differs: "rank 0 counts 2 ranks, rank 1 counts 3 ranks". Returns "" if
// all are equal.
std::string difference(const Places& places) {
  for (const auto& [ignored, first] : places) {
    for (const Count& count : counts(first.node_rank)) {
      std::map<std::string, std::vector<int>> ranks;
      for (const auto& [rank, place] : places) {
        if (const std::string said = count.of(place); !said.empty()) ranks[said].push_back(rank);
      }
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
  }

  // Waits for all ranks and returns the verdict on them.
  std::string verdict() {
    const auto deadline = Clock::now() + meeting_.agreement.timeout;
    std::vector<int> missing;
    for (int rank = 1; rank < meeting_.agreement.world_size; ++rank) {
      while (!read_place(rank, deadline) && !objection_ && Clock::now() < deadline)
        objection_ = store_.try_get(kObjection);
      if (objection_ || !difference(places_).empty()) return refusal();
      if (!places_.contains(rank)) missing.push_back(rank);
    }
    if (!missing.empty()) return std::string(kRanksMissing) + join(missing);
    objection_ = store_.try_get(kObjection);
    if (objection_) return refusal();
    const bool same = std::ranges::all_of(places_, [&](const auto& p) { return p.second.text == places_[0].text; });
    return std::string(same ? kAllAlike : kOtherTexts);
  }

  int present() const { return static_cast<int>(places_.size()); }

 private:
  bool read_place(int rank, Clock::time_point deadline) {
    const auto left = std::max<std::chrono::nanoseconds>(deadline - Clock::now(), std::chrono::nanoseconds(0));
    const auto text = store_.get(place_key(rank), std::min<std::chrono::nanoseconds>(left, kPollInterval));
    if (text) places_.insert_or_assign(rank, place_from(*text, rank));
    return text.has_value();
  }

  // Returns the error. Waits for late ranks before, so that the error names them and they can read it.
  std::string refusal() {
    const auto deadline = Clock::now() + meeting_.for_latecomers;
    int most = 0;
    do {
      for (const auto& [rank, place] : Places(places_)) most = std::max(most, std::min(place.world_size, kMostShown));
      for (int rank = 1; rank < most; ++rank) {
        if (!places_.contains(rank)) read_place(rank, std::min(deadline, Clock::now() + kPollInterval));
      }
    } while (present() < most && Clock::now() < deadline);
    const std::string text = difference(places_);
    return text.empty() ? on_one_line(*objection_) : text;
  }

  static constexpr int kMostShown = 4096;
  const Meeting& meeting_;
  Store& store_;
  Places places_;
  std::optional<std::string> objection_;
};

// Throws UserError if another process has the same rank, because its place would be taken for this one's.
void check_number_is_free(const Meeting& meeting) {
  const Agreement& own = meeting.agreement;
  const std::string key = place_key(own.rank);
  if (!meeting.store_is_fresh || own.store.add("came/" + std::to_string(own.rank), 1) == 1) return;
  const auto other = own.store.get(key, kPollInterval);
  const std::string who = other ? place_from(*other, own.rank).who : "another process";
  const std::string problem = "two processes say that they are rank " + std::to_string(own.rank) + ": " + who +
                              " and " + own.who + "; give every process a RANK of its own";
  own.store.set(kObjection, problem);
  throw UserError(problem);
}

// Every rank compares itself with rank 0, because rank 0 never reads the place of a rank beyond its own world size.
void check_against_rank0(const Meeting& meeting, const Place& own) {
  const Agreement& agreement = meeting.agreement;
  const Place first = place_from(published_by_rank0(agreement, "its place in the job", place_key(0)), 0);
  const std::string problem = difference({{0, first}, {agreement.rank, own}});
  if (problem.empty()) return;
  agreement.store.set(kObjection, problem);
  leave_together(agreement, kRead, 0);
  throw UserError(problem);
}

}  // namespace

bool meet(const Meeting& meeting, const std::string& topic, std::string_view text) {
  const Agreement& agreement = meeting.agreement;
  const Topology& topology = meeting.topology;
  check_number_is_free(meeting);
  const Place own{topology.world_size, topology.num_nodes, topology.node_rank, topology.local_world_size,
                  fingerprint(text),   topology.run_id,    agreement.who};
  agreement.store.set(place_key(agreement.rank), own.to_text());
  int present = agreement.world_size;
  if (agreement.rank == 0) {
    Gathering gathering(meeting, own);
    agreement.store.set(kVerdict, gathering.verdict());
    present = gathering.present();
  } else {
    check_against_rank0(meeting, own);
  }
  const std::string verdict = published_by_rank0(agreement, topic, kVerdict);
  if (verdict == kAllAlike || verdict == kOtherTexts) return verdict == kAllAlike;
  if (verdict.starts_with(kRanksMissing)) throw_missing(agreement, topic, verdict.substr(kRanksMissing.size()), kRead);
  leave_together(agreement, kRead, present);
  throw UserError(verdict.empty() ? "rank 0 ended this job and gave no reason; look at its log" : on_one_line(verdict));
}

}  // namespace cohort::host
