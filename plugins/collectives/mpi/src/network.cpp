#include "network.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
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

// After a failure messages may be under way still: the communicator is left to MPI, and everything where its only
// thread may be inside of MPI for good.
Network::~Network() {
  if (has_failed_ && library_.is_one_at_a_time()) return;
  library_.call([&] {
    if (receiving_ == MPI_REQUEST_NULL) return MPI_SUCCESS;
    ::MPI_Cancel(&receiving_);
    return ::MPI_Request_free(&receiving_);
  });
  if (!has_failed_ && sent_.empty()) library_.retire(comm_);
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
  const int code = library_.call_blocking(name, std::move(function), Clock::now() + timeout_, look);
  if (code != MPI_SUCCESS) fail_broken(scene, code);
}

// While MPI's only thread is inside of MPI: nobody can be told or heard.
void Network::look_around_in_silence(const Scene& scene) {
  const std::lock_guard lock(mutex_);
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
  std::vector<int> everybody(peers_.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  tell(everybody, COHORT_UNAVAILABLE, own_name() + " has aborted '" + communicator + "'");
}

void Network::settle(sdk::Error verdict) {
  verdict_ = std::move(verdict);
  library_.expect_no_orderly_end();
  std::vector<int> everybody(peers_.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  tell(everybody, verdict_->status(), verdict_->what());
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
  tell(scene.ranks, COHORT_OK, scene.operation);
  const auto is_silent = [&](int rank) { return rank != rank_ && waits_in_[static_cast<std::size_t>(rank)].empty(); };
  const auto deadline = Clock::now() + kAnswerTime;
  while (std::any_of(scene.ranks.begin(), scene.ranks.end(), is_silent) && Clock::now() < deadline) {
    read_notes(scene);
    if (has_failed_) return *verdict_;
    std::this_thread::sleep_for(kPause);
  }
  std::vector<int> missing;
  std::string elsewhere;
  for (const int other : scene.ranks) {
    const std::string& theirs = waits_in_[static_cast<std::size_t>(other)];
    if (is_silent(other)) missing.push_back(other);
    if (other == rank_ || theirs.empty() || !elsewhere.empty()) continue;
    if (theirs != scene.operation.substr(0, sizeof(Note::text) - 1)) elsewhere = describe({other}) + " in " + theirs;
  }
  // Where a rank is silent, others may be one operation apart because of it.
  if (missing.empty() && !elsewhere.empty()) {
    return {COHORT_FAILED_PRECONDITION, "ranks are in different operations: " + own_name() + " in " + scene.operation +
                                            ", " + elsewhere + "; all ranks make the same calls in the same order"};
  }
  const std::string who = missing.empty() ? "the network between " + describe(scene.ranks) : describe(missing);
  return {COHORT_DEADLINE_EXCEEDED, who + " did not do its part of " + scene.operation + " within " +
                                        in_words(timeout_) + ", waited for by " + own_name()};
}

std::string Network::describe(const std::vector<int>& ranks) const {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + peers_[static_cast<std::size_t>(rank)].who;
  return text;
}

void Network::expect_note() {
  const int code = library_.call([&] {
    return ::MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, kNoteTag, comm_, &receiving_);
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
    const Note note = incoming_;
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
  SentNote& sent = sent_.emplace_back(SentNote{{status, {}}, std::vector<MPI_Request>(ranks.size(), MPI_REQUEST_NULL)});
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
