#include <cohort/diagnosis/post_mortem.hpp>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include <cohort/diagnosis/last_words.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/farewell.hpp>
#include <cohort/host/files.hpp>

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLongestCall = 1s;  // of the store
// Shorter than whoever serves the store stays. Ranks that live and have failed too answer in far less.
constexpr std::chrono::milliseconds kLongestTalk = host::kGraceTime / 2;
constexpr std::chrono::milliseconds kPause = 5ms;
// In larger jobs rank 0 alone asks all others, and they ask it: else the store would be asked for ranks^2 texts.
constexpr size_t kMostWhoAskAll = 64;
// Rank 0 may begin a little later than this one, and stays for longer.
constexpr std::chrono::milliseconds kLongestVerdict = kLongestTalk + 1s;
constexpr const char* kVerdict = "failure/verdict";
constexpr size_t kToldOperations = 16;  // of each communicator
constexpr size_t kLongestError = 500;

std::string key_of(size_t rank) {
  return "failure/" + std::to_string(rank);
}

std::string key_of_leave(size_t rank) {
  return key_of(rank) + "/left";
}

std::string key_of_introduction(size_t rank) {
  return key_of(rank) + "/who";
}

std::string first_line(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() <= kLongestError ? line : line.substr(0, kLongestError) + "...";
}

bool can_speak(ProcessState state) {
  return state == ProcessState::kRunning || state == ProcessState::kUnknown;
}

// An operation that failed by itself; one that was aborted says nothing about the cause.
bool has_failed(const Operation& operation) {
  return operation.status != "OK" && operation.status != "running" && operation.status != "ABORTED";
}

}  // namespace

PostMortem::PostMortem(host::ConnectedRank& rank, const std::filesystem::path& log_dir)
    : rank_(rank), log_dir_(log_dir) {
  for (int r = 0; r < rank.topology().world_size; ++r) peers_.push_back({r, 0, "", "", 0});
  rank.store().when_met([this] { rank_.store().of_run()->set(key_of_introduction(own_rank()), introduction()); });
}

void PostMortem::introduce() {
  if (peers_.size() == 1) return;
  const auto texts = rank_.all_gather(introduction());
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    peers_[rank] = peer_from(static_cast<int>(rank), texts[rank]);
  }
  watch_ = std::make_unique<DeadlockWatch>(rank_, [this] { return !store_is_lost(); });
}

// For a failure before introduce().
void PostMortem::read_introductions() {
  try {
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      if (is_wide() && !serves_store() && rank != own_rank() && rank != 0) continue;
      const auto text = store()->try_get(key_of_introduction(rank));
      if (text) peers_[rank] = peer_from(static_cast<int>(rank), *text);
    }
  } catch (const Error& error) {
    rank_.log().debug(error.what());
  }
}

Failure PostMortem::examine(const Failure& failure) noexcept {
  try {
    if (!has_others()) return failure;
    watch_ ? watch_->stop() : read_introductions();
    const auto operations = operations_of(rank_.host().recorder().flights(), host::FlightRecorder::kKept);
    const bool in_operation = std::ranges::any_of(operations, has_failed);
    Evidence evidence;
    evidence.rank = own_rank();
    evidence.own = {failure.exit_code, in_operation, first_line(failure.message),
                    operations_of(rank_.host().recorder().flights(), kToldOperations)};
    evidence.peers = peers_;
    evidence.words.resize(peers_.size());
    tell(evidence.own);
    write_flight({failure.exit_code, in_operation, failure.message, operations});
    if (!in_operation && failure.exit_code != static_cast<int>(ExitCode::kPeerFailed)) {
      publish({describe(peers_[own_rank()]) + " failed: " + evidence.own.error, false});
      return failure;
    }
    rank_.abort();  // ranks that wait for this one shall speak as well
    const std::string deadlock = watch_ ? watch_->verdict() : "";
    if (!deadlock.empty()) return {static_cast<int>(ExitCode::kUserMistake), deadlock, "UserError"};
    const Verdict verdict = find_cause(evidence);
    const std::string sentence = sentence_of(verdict, failure.message);
    if (verdict.ranks_disagree) return {static_cast<int>(ExitCode::kUserMistake), sentence, "UserError"};
    return {failure.exit_code, sentence, failure.type};
  } catch (const std::exception& error) {
    rank_.log().debug(std::string("the other ranks could not be asked: ") + error.what());
    return failure;
  }
}

bool PostMortem::is_wide() const {
  return peers_.size() > kMostWhoAskAll;
}

Verdict PostMortem::find_cause(Evidence& evidence) const {
  if (!is_wide() || serves_store()) {
    ask(evidence);
    const Verdict verdict = judge(evidence);
    publish(verdict);
    return verdict;
  }
  if (knows_lost_ranks(evidence)) return judge(evidence);
  if (const auto found = verdict_of_rank0()) return *found;
  evidence.heard_all = false;
  return judge(evidence);
}

/// Rank 0 of a wide job tells the others what they shall say.
void PostMortem::publish(const Verdict& verdict) const {
  if (is_wide() && serves_store()) store()->set(kVerdict, to_text(verdict));
}

std::optional<Verdict> PostMortem::verdict_of_rank0() const {
  try {
    const auto text = store_is_lost() ? std::nullopt : store()->get(kVerdict, kLongestVerdict);
    return text ? verdict_from(*text) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void PostMortem::leave() noexcept {
  try {
    if (!has_others() || store_is_lost()) return;
    rank_.abort();
    store()->set(key_of_leave(own_rank()), "");
    if (!serves_store()) return;
    size_t rank = 0;  // all before it have left, or cannot
    host::stay_while([&] {
      while (rank < peers_.size() && (!can_speak(state_of(rank)) || store()->try_get(key_of_leave(rank)))) ++rank;
      return rank < peers_.size();
    });
  } catch (const std::exception& error) {
    rank_.log().debug(std::string("the other ranks were not waited for: ") + error.what());
  }
}

ProcessState PostMortem::state_of(size_t rank) const {
  const Peer &peer = peers_[rank], &own = peers_[own_rank()];
  const bool is_here = peer.pid == own.pid && peer.started == own.started && peer.space == own.space;
  if (is_here) return ProcessState::kRunning;  // a thread: of a process with thousands the system tells slowly
  return host::state_of({peer.pid, peer.started, peer.space}, own.space);
}

// Known without asking it.
bool PostMortem::store_is_lost() const {
  if (serves_store()) return false;
  return !can_speak(state_of(0));
}

host::Store* PostMortem::store() const {
  rank_.store().limit_calls(kLongestCall);
  return rank_.store().of_run();
}

void PostMortem::tell(const LastWords& words) const {
  try {
    if (!store_is_lost()) store()->set(key_of(own_rank()), to_text(words));
  } catch (const Error& error) {
    rank_.log().debug(error.what());
  }
}

// Until all have answered that can; those whose process has ended or is stopped are not waited for.
void PostMortem::ask(Evidence& evidence) const {
  evidence.states.assign(peers_.size(), ProcessState::kUnknown);
  const auto deadline = Clock::now() + kLongestTalk;
  bool may_answer = true;
  while (may_answer) {
    const bool last_round = Clock::now() >= deadline;
    may_answer = false;
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      if (rank == own_rank() || evidence.words[rank]) continue;
      // Looked at before the store is asked: what a rank says it says before it ends.
      evidence.states[rank] = state_of(rank);
      try {
        evidence.heard_all = evidence.heard_all && !store_is_lost();
        const auto text = evidence.heard_all ? store()->try_get(key_of(rank)) : std::nullopt;
        if (text) evidence.words[rank] = last_words_from(*text);
      } catch (const Error&) {
        evidence.heard_all = false;
      }
      const ProcessState state = evidence.states[rank];
      // Connections close a little before their process has ended.
      const bool is_ending = rank == 0 && state == ProcessState::kRunning;
      const bool is_awaited = evidence.heard_all ? can_speak(state) && !evidence.words[rank] : is_ending;
      may_answer = may_answer || (is_awaited && !last_round);
    }
    if (may_answer) std::this_thread::sleep_for(kPause);
  }
}

/// Returns whether there are ranks whose process has ended or is stopped, as can be seen on their machine only, and
/// that are no echo of another one. Asks for the words of such ranks alone.
bool PostMortem::knows_lost_ranks(Evidence& evidence) const {
  evidence.states.assign(peers_.size(), ProcessState::kUnknown);
  bool knows = false;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const ProcessState state = state_of(rank);
    if (rank == own_rank() || can_speak(state)) continue;
    evidence.states[rank] = state;
    try {
      const auto text = store_is_lost() ? std::nullopt : store()->try_get(key_of(rank));
      if (text) evidence.words[rank] = last_words_from(*text);
    } catch (const Error&) {
      evidence.heard_all = false;
    }
    const auto& words = evidence.words[rank];
    knows = knows || !words || words->exit_code != static_cast<int>(ExitCode::kPeerFailed);
  }
  return knows;
}

void PostMortem::write_flight(const LastWords& words) const {
  if (log_dir_.empty()) {
    for (const Operation& one : operations_of(rank_.host().recorder().flights(), 3)) {
      rank_.log().debug("last operations: " + describe(one) + ": " + one.status);
    }
    return;
  }
  const Peer& own = peers_[own_rank()];
  const Json flight{{"rank", own.rank},     {"pid", own.pid},
                    {"host", own.host},     {"exit_code", words.exit_code},
                    {"error", words.error}, {"operations", flight_of(words.operations)}};
  try {
    host::write_file(log_dir_ / ("flight-rank-" + std::to_string(own.rank) + ".json"),
                     flight.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const Error& error) {
    rank_.log().warning(error.what());
  }
}

}  // namespace cohort
