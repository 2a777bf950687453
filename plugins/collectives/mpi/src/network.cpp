#include "network.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>

namespace cohort::mpi {

namespace {

constexpr int kNoteTag = 0;
constexpr std::chrono::milliseconds kAnswerTime{1000};
constexpr std::chrono::milliseconds kTimeOfLastWords{100};  // of a rank that is gone by now
constexpr std::chrono::milliseconds kPause{1};

std::vector<int> pids_of(const std::vector<Peer>& peers) {
  std::vector<int> pids;
  for (const Peer& peer : peers) pids.push_back(peer.pid);
  return pids;
}

std::string text_of(const std::array<char, 508>& text) {
  return {text.data(), ::strnlen(text.data(), text.size())};
}

// The end of an operation's words.
std::string_view communicator_in(std::string_view operation) {
  return operation.substr(std::min(operation.rfind(" on '"), operation.size()));
}

}  // namespace

Network::Network(Library& library, MPI_Comm comm, int rank, std::vector<Peer> peers, std::chrono::nanoseconds timeout)
    : library_(library),
      comm_(comm),
      rank_(rank),
      peers_(std::move(peers)),
      timeout_(timeout),
      takes_turns_(std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.takes_turns; })),
      processes_(pids_of(peers_)),
      waits_in_(peers_.size()) {
  expect_note();
}

// After a failure messages may be under way still: the communicator and the notes are left to MPI, and everything where
// its only thread may be inside of MPI for good.
Network::~Network() {
  if (has_failed_) static_cast<void>(notes_.release());
  if (has_failed_ && library_.is_one_at_a_time()) return;
  library_.call([&] {
    if (receiving_ == MPI_REQUEST_NULL) return MPI_SUCCESS;
    ::MPI_Cancel(&receiving_);
    return ::MPI_Request_free(&receiving_);
  });
  if (!has_failed_ && notes_->sent.empty()) library_.retire(comm_);
}

void Network::require_alive() const {
  if (has_failed_) throw *verdict_;
}

void Network::look_around(const Scene& scene) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  if (!has_failed_) read_notes(scene);
  if (!has_failed_) judge_gone(scene);
  require_alive();
}

void Network::call_together(const char* name, const Scene& scene, std::function<int()> function) {
  const auto look = [&] { library_.is_one_at_a_time() ? look_around_in_silence(scene) : look_around(scene); };
  int code = MPI_SUCCESS;
  try {
    code = library_.call_blocking(name, std::move(function), Clock::now() + timeout_, look);
  } catch (const sdk::Error& error) {
    if (error.status() != COHORT_DEADLINE_EXCEEDED) throw;
    fail_stuck(scene, error);
  }
  if (code != MPI_SUCCESS) fail_broken(scene, code);
}

// A rank has stopped inside of MPI. Others can be asked for it unless MPI's only thread is in there as well.
void Network::fail_stuck(const Scene& scene, const sdk::Error& late) {
  if (!library_.is_one_at_a_time()) fail_late(scene);
  const std::lock_guard lock(mutex_);
  if (!has_failed_) verdict_ = late;
  has_failed_ = true;
  throw *verdict_;
}

// While MPI's only thread is inside of MPI: nobody can be told or heard.
void Network::look_around_in_silence(const Scene& scene) {
  const std::lock_guard lock(mutex_);
  require_alive();
  const std::vector<int> gone = processes_.gone();
  if (gone.empty()) return;
  library_.expect_no_end();
  verdict_ = verdict_of_gone(gone, scene);
  has_failed_ = true;
  throw *verdict_;
}

void Network::fail_late(const Scene& scene) {
  const std::lock_guard lock(mutex_);
  sdk::Error verdict = judge_late(scene);
  if (!has_failed_) settle(std::move(verdict));
  throw *verdict_;
}

void Network::fail_broken(const Scene& scene, int code) {
  const std::lock_guard lock(mutex_);
  if (!has_failed_) read_notes(scene);
  if (!has_failed_) judge_gone(scene);
  if (!has_failed_) {
    int error_class = MPI_ERR_OTHER;
    ::MPI_Error_class(code, &error_class);
    const std::string what =
        "MPI failed in " + scene.operation + " on " + own_name() + " (" + text_of_error(code) + ")";
    settle(error_class == MPI_ERR_TRUNCATE
               ? sdk::failed_precondition(what + ": ranks gave different numbers of elements")
               : sdk::Error(COHORT_UNAVAILABLE, what));
  }
  throw *verdict_;
}

void Network::give_up(const std::string& communicator) {
  const std::lock_guard lock(mutex_);
  library_.expect_no_orderly_end();
  if (has_failed_) return;
  tell(everybody(), COHORT_UNAVAILABLE, own_name() + " has aborted '" + communicator + "'");
}

void Network::settle(sdk::Error verdict) {
  verdict_ = std::move(verdict);
  library_.expect_no_orderly_end();
  tell(everybody(), verdict_->status(), verdict_->what());
  has_failed_ = true;
}

// Who ends in order has finalised MPI before, together with all others.
void Network::judge_gone(const Scene& scene) {
  const std::vector<int> gone = processes_.gone();
  if (gone.empty()) return;
  library_.expect_no_end();
  const auto deadline = Clock::now() + kTimeOfLastWords;
  while (!has_failed_ && Clock::now() < deadline) {
    read_notes(scene);
    std::this_thread::sleep_for(kPause);
  }
  if (has_failed_) return;
  settle(verdict_of_gone(gone, scene));
}

sdk::Error Network::verdict_of_gone(const std::vector<int>& gone, const Scene& scene) const {
  return {COHORT_UNAVAILABLE,
          describe(gone) + " is gone: its process has ended, found in " + scene.operation + " by " + own_name()};
}

sdk::Error Network::judge_late(const Scene& scene) {
  tell(everybody(), COHORT_OK, scene.operation);
  const auto deadline = Clock::now() + kAnswerTime;
  hear_from(scene.ranks, scene, deadline);
  if (has_failed_) return *verdict_;
  const std::vector<int> missing = silent_of(scene.ranks);
  if (!missing.empty()) return late(describe(missing), scene);
  for (const int other : scene.ranks) {
    const std::string& theirs = waits_in_[static_cast<std::size_t>(other)];
    if (other == rank_ || theirs == scene.operation.substr(0, sizeof(Note::text) - 1)) continue;
    return judge_elsewhere(scene, other, deadline);
  }
  return late("the network between " + describe(scene.ranks), scene);
}

// All ranks of the scene have answered, and this one is in another operation: of this communicator by mistake, of
// another one because somebody else has not come to that.
sdk::Error Network::judge_elsewhere(const Scene& scene, int other, Clock::time_point deadline) {
  const std::string theirs = waits_in_[static_cast<std::size_t>(other)];
  if (communicator_in(theirs) == communicator_in(scene.operation)) {
    return {COHORT_FAILED_PRECONDITION, "ranks are in different operations: " + own_name() + " in " + scene.operation +
                                            ", " + describe({other}) + " in " + theirs +
                                            "; all ranks make the same calls in the same order"};
  }
  hear_from(everybody(), scene, deadline);
  if (has_failed_) return *verdict_;
  const std::vector<int> silent = silent_of(everybody());
  const std::string cause = silent.empty() ? "" : " (no answer from " + describe(silent) + ")";
  return late(describe({other}) + ", which waits in " + theirs + cause + ",", scene);
}

sdk::Error Network::late(const std::string& who, const Scene& scene) const {
  return {COHORT_DEADLINE_EXCEEDED, who + " did not do its part of " + scene.operation + " within " +
                                        in_words(timeout_) + ", waited for by " + own_name()};
}

void Network::hear_from(const std::vector<int>& ranks, const Scene& scene, Clock::time_point deadline) {
  while (!silent_of(ranks).empty() && Clock::now() < deadline) {
    read_notes(scene);
    if (has_failed_) return;
    std::this_thread::sleep_for(kPause);
  }
}

std::vector<int> Network::silent_of(const std::vector<int>& ranks) const {
  std::vector<int> silent;
  for (const int rank : ranks) {
    if (rank != rank_ && waits_in_[static_cast<std::size_t>(rank)].empty()) silent.push_back(rank);
  }
  return silent;
}

std::vector<int> Network::everybody() const {
  std::vector<int> ranks(peers_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string Network::describe(const std::vector<int>& ranks) const {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + peers_[static_cast<std::size_t>(rank)].who;
  return text;
}

void Network::expect_note() {
  const int code = library_.call([&] {
    return ::MPI_Irecv(&notes_->incoming, sizeof notes_->incoming, MPI_BYTE, MPI_ANY_SOURCE, kNoteTag, comm_,
                       &receiving_);
  });
  if (code != MPI_SUCCESS) receiving_ = MPI_REQUEST_NULL;
}

// Who asks where this rank is gets an answer: once, or two that answer each other's answers would never end.
void Network::read_notes(const Scene& scene) {
  while (!has_failed_ && receiving_ != MPI_REQUEST_NULL) {
    int has_come = 0;
    MPI_Status status{};
    const int code = library_.call([&] { return ::MPI_Test(&receiving_, &has_come, &status); });
    if (code != MPI_SUCCESS || !has_come) return;
    const Note note = notes_->incoming;
    expect_note();
    if (note.status == COHORT_OK) {
      std::string& theirs = waits_in_[static_cast<std::size_t>(status.MPI_SOURCE)];
      if (theirs.empty()) tell({status.MPI_SOURCE}, COHORT_OK, scene.operation);
      theirs = text_of(note.text);
    } else {
      verdict_ = sdk::Error(note.status, text_of(note.text));
      library_.expect_no_orderly_end();
      has_failed_ = true;
    }
  }
}

// Small messages leave at once, whether they are waited for or not.
void Network::tell(const std::vector<int>& ranks, int32_t status, const std::string& text) {
  SentNote& sent =
      notes_->sent.emplace_back(SentNote{{status, {}}, std::vector<MPI_Request>(ranks.size(), MPI_REQUEST_NULL)});
  text.copy(sent.note.text.data(), sent.note.text.size() - 1);
  const auto deadline = Clock::now() + kTimeOfLastWords;
  library_.call([&] {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] == rank_) continue;
      ::MPI_Isend(&sent.note, sizeof sent.note, MPI_BYTE, ranks[i], kNoteTag, comm_, &sent.requests[i]);
    }
    return MPI_SUCCESS;
  });
  int have_left = 0;
  while (!have_left && Clock::now() < deadline) {
    const int code = library_.call([&] {
      return ::MPI_Testall(static_cast<int>(ranks.size()), sent.requests.data(), &have_left, MPI_STATUSES_IGNORE);
    });
    if (code != MPI_SUCCESS) return;
    if (!have_left) std::this_thread::sleep_for(kPause);
  }
}

std::string in_words(std::chrono::nanoseconds duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace cohort::mpi
