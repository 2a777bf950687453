#include "network.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <cohort/sdk/duration.hpp>

namespace cohort::mpi {

namespace {

constexpr int kNoticeTag = 0;
constexpr std::chrono::milliseconds kLongestSend{100};  // of a notice to a rank that MPI has not talked to yet
constexpr std::chrono::milliseconds kPauseOfLook{1};

std::vector<int> pids_of(const std::vector<Peer>& peers) {
  std::vector<int> pids;
  for (const Peer& peer : peers) pids.push_back(peer.pid);
  return pids;
}

}  // namespace

Network::Network(Library& library, MPI_Comm comm, int rank, std::vector<Peer> peers, std::chrono::nanoseconds timeout)
    : library_(library),
      comm_(comm),
      rank_(rank),
      peers_(std::move(peers)),
      timeout_(timeout),
      takes_turns_(std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.takes_turns; })),
      processes_(pids_of(peers_)) {
  const int code =
      library_.call([&] { return ::MPI_Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kNoticeTag, comm_, &notice_); });
  if (code != MPI_SUCCESS) notice_ = MPI_REQUEST_NULL;
}

// After a failure messages may be under way still: the communicator is left to MPI, and everything if its only thread
// may be inside of MPI for good.
Network::~Network() {
  if (has_failed_ && library_.is_one_at_a_time()) return;
  library_.call([&] {
    if (notice_ == MPI_REQUEST_NULL) return MPI_SUCCESS;
    ::MPI_Cancel(&notice_);
    return ::MPI_Request_free(&notice_);
  });
  if (!has_failed_ && !has_aborted_) library_.retire(comm_);
}

void Network::require_alive() const {
  if (has_failed_) throw *failure_;
}

void Network::fail(const sdk::Error& error) {
  const std::lock_guard lock(mutex_);
  library_.expect_no_orderly_end();
  if (!has_failed_) failure_ = error;
  has_failed_ = true;
  throw error;
}

void Network::look_around(const std::string& operation) {
  require_alive();
  check_processes(operation);
  check_notice(operation);
}

// A rank that ends in order has finalised MPI before, together with all others.
void Network::check_processes(const std::string& operation) {
  const std::vector<int> gone = processes_.gone();
  if (gone.empty()) return;
  library_.expect_no_end();
  fail({COHORT_UNAVAILABLE, "the process of " + describe(gone) + " has ended, found in " + operation, gone});
}

void Network::check_notice(const std::string& operation) {
  int has_come = 0;
  MPI_Status status{};
  {
    const std::lock_guard lock(mutex_);
    if (notice_ == MPI_REQUEST_NULL) return;
    library_.call([&] { return ::MPI_Test(&notice_, &has_come, &status); });
  }
  if (!has_come) return;
  const int rank = status.MPI_SOURCE;
  fail({COHORT_UNAVAILABLE, describe({rank}) + " has aborted, found in " + operation, {rank}});
}

// While MPI's only thread is inside of MPI no notice can be read.
void Network::call_together(const char* name, const std::string& operation, std::function<int()> function) {
  const bool is_alone = library_.is_one_at_a_time();
  const auto look = [&] { is_alone ? check_processes(operation) : look_around(operation); };
  int code = MPI_SUCCESS;
  try {
    code = library_.call_blocking(name, std::move(function), Clock::now() + timeout_, look);
  } catch (const sdk::Error& error) {
    is_stuck_ = is_alone;
    fail(error);
  }
  if (code != MPI_SUCCESS) fail_broken(operation, code);
}

void Network::fail_late(const std::string& operation, std::vector<int> ranks) {
  const std::string whom = ranks.empty() ? "other ranks" : describe(ranks);
  fail({COHORT_DEADLINE_EXCEEDED, operation + " waited " + sdk::in_words(timeout_) + " for " + whom, std::move(ranks)});
}

void Network::fail_broken(const std::string& operation, int code) {
  look_around(operation);
  int error_class = MPI_ERR_OTHER;
  ::MPI_Error_class(code, &error_class);
  const std::string what = "MPI failed in " + operation + " (" + text_of_error(code) + ")";
  if (error_class == MPI_ERR_TRUNCATE) {
    fail(sdk::failed_precondition(what + ": ranks gave different numbers of elements"));
  }
  fail({COHORT_UNAVAILABLE, what});
}

// MPI sends only while it is called: often at once, but to a rank that it has no connection to yet in some
// milliseconds.
void Network::give_up() {
  const std::lock_guard lock(mutex_);
  library_.expect_no_orderly_end();
  if (is_stuck_ || std::exchange(has_aborted_, true)) return;
  std::vector<MPI_Request> notices(peers_.size(), MPI_REQUEST_NULL);
  library_.call([&] {
    for (std::size_t rank = 0; rank < notices.size(); ++rank) {
      if (static_cast<int>(rank) == rank_) continue;
      ::MPI_Isend(nullptr, 0, MPI_BYTE, static_cast<int>(rank), kNoticeTag, comm_, &notices[rank]);
    }
    return MPI_SUCCESS;
  });
  const auto deadline = Clock::now() + kLongestSend;
  for (int have_left = 0; !have_left && Clock::now() < deadline; std::this_thread::sleep_for(kPauseOfLook)) {
    const auto test = [&] {
      return ::MPI_Testall(static_cast<int>(notices.size()), notices.data(), &have_left, MPI_STATUSES_IGNORE);
    };
    if (library_.call(test) != MPI_SUCCESS) return;
  }
}

std::string Network::describe(const std::vector<int>& ranks) const {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + peers_[static_cast<std::size_t>(rank)].who;
  return text;
}

}  // namespace cohort::mpi
