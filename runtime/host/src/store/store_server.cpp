// The serving end of a store, in the process of rank 0: a table in memory, and a thread that serves it to the others.
//
// The thread alone touches connections. What it does for an event costs the clients that the event concerns, not all of
// them: epoll tells which have sent something, and a key that is written is looked up among those that are waited for.
// Rank 0's own calls go to the table, and wake the thread. Strangers cannot keep ranks out: each has five seconds to
// prove that it belongs to the job, and if there are many, one makes room for each that comes. Ranks greet as soon as
// they are connected, so those who have said nothing go first, and soon.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/served_store.hpp>

#include "store/local_address.hpp"
#include "store/store_connection.hpp"
#include "store/store_table.hpp"
#include "store/waiting_clients.hpp"

namespace cohort::host {
namespace {

using namespace std::chrono_literals;
using Clock = StoreConnection::Clock;

constexpr auto kLongestProofTime = 5s;
constexpr std::size_t kMostStrangers = 256;
constexpr auto kShortestSilence = 20ms;  // of a stranger, before it makes room; a rank that is sent away comes again
constexpr auto kShortestStay = 250ms;    // of one that has greeted
constexpr auto kWithoutDescriptors = 10ms;
constexpr int kLocalBacklog = 4096;  // the system has a limit of its own (net.core.somaxconn)
constexpr std::size_t kEventsAtOnce = 256;

bool is_local(int descriptor) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  return ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &length) == 0 && bound.ss_family == AF_UNIX;
}

class StoreServer final : public Store {
 public:
  StoreServer(int descriptor, const Key& key, std::function<void(const std::string&)> warn);
  ~StoreServer() override;

  void set(const std::string& key, std::string_view value) override;
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override;
  std::optional<std::string> try_get(const std::string& key) override { return get(key, 0ns); }
  int64_t add(const std::string& key, int64_t amount) override;
  void remove(const std::string& key) override;
  uint64_t count() override;
  void all_ranks_met() override;
  void give_up() override;

 private:
  void run();
  void await_events();
  int milliseconds_to_wait() const;
  void handle(const epoll_event& event);
  void accept_those_who_come();
  bool accept_one();
  bool belongs_to_this_user(int descriptor);
  void stop_accepting(Clock::time_point until);
  void close_listener();
  void look_at(int descriptor, StoreConnection& one);
  void watch(int descriptor, uint32_t events) const;
  void end(int descriptor);
  void serve_waiting();
  void serve(const std::vector<int>& clients, Clock::time_point now);
  void drop_strangers(Clock::time_point now);
  void forget_stranger(int descriptor, const StoreConnection& one);
  bool make_room(Clock::time_point now);
  Clock::time_point next_room() const;
  void warn_once(const std::string& sentence);
  void wake() const;
  void require_not_given_up() const;

  const Key key_;
  const std::function<void(const std::string&)> warn_;
  const bool is_local_;
  int listener_;                // the thread's; -1: nobody can connect any more
  const int wake_up_, events_;  // an eventfd, an epoll
  std::atomic<bool> is_ending_{false}, is_closing_{false};
  bool has_warned_ = false;
  std::optional<Clock::time_point> accepts_from_;  // nothing: it accepts
  std::unordered_map<int, StoreConnection> connections_;
  using Strangers = std::set<std::pair<Clock::time_point, int>>;  // since when, who
  Strangers silent_, greeted_;
  WaitingClients waiting_;
  StoreTable table_;
  const StoreConnection::Serve serve_one_ = [this](const StoreRequest& request) { return table_.serve(request); };
  std::atomic<bool> is_given_up_{false};
  std::thread thread_;
};

StoreServer::StoreServer(int descriptor, const Key& key, std::function<void(const std::string&)> warn)
    : key_(key),
      warn_(std::move(warn)),
      is_local_(is_local(descriptor)),
      listener_(descriptor),
      wake_up_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      events_(::epoll_create1(EPOLL_CLOEXEC)) {
  ::fcntl(listener_, F_SETFL, O_NONBLOCK);
  for (const int one : {listener_, wake_up_}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = one}};
    ::epoll_ctl(events_, EPOLL_CTL_ADD, one, &event);
  }
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);  // signals are for the threads of the program
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StoreServer::~StoreServer() {
  is_ending_ = true;
  wake();
  thread_.join();
  ::close(wake_up_);
  ::close(events_);
}

void StoreServer::wake() const {
  const uint64_t one = 1;
  static_cast<void>(::write(wake_up_, &one, sizeof one));  // it cannot overflow before the thread reads it
}

void StoreServer::run() {
  while (!is_ending_) {
    await_events();
    if (is_closing_) close_listener();
    serve_waiting();
    drop_strangers(Clock::now());
  }
  close_listener();
  connections_.clear();
}

void StoreServer::await_events() {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = ::epoll_wait(events_, events.data(), static_cast<int>(events.size()), milliseconds_to_wait());
  for (int i = 0; i < count; ++i) handle(events[static_cast<std::size_t>(i)]);
  if (listener_ >= 0 && accepts_from_ && Clock::now() >= *accepts_from_) {
    accepts_from_.reset();
    watch(listener_, EPOLLIN);
  }
}

int StoreServer::milliseconds_to_wait() const {
  auto until = waiting_.first_end().value_or(Clock::time_point::max());
  if (accepts_from_) until = std::min(until, *accepts_from_);
  for (const Strangers* some : {&silent_, &greeted_}) {
    if (!some->empty()) until = std::min(until, some->begin()->first + kLongestProofTime);
  }
  if (until == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void StoreServer::handle(const epoll_event& event) {
  const int descriptor = event.data.fd;
  if (descriptor == wake_up_) {
    uint64_t ignored = 0;
    static_cast<void>(::read(wake_up_, &ignored, sizeof ignored));
    return;
  }
  if (descriptor == listener_) return accept_those_who_come();
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;
  StoreConnection& one = found->second;
  const bool has_sent = (event.events & EPOLLOUT) == 0 || one.send_rest();
  if (has_sent && ((event.events & ~EPOLLOUT) == 0 || one.receive(serve_one_))) return look_at(descriptor, one);
  if (one.is_refused()) {
    warn_once(
        "a process that does not know this job's secret tried to join it and was refused; later ones are not "
        "reported");
  }
  end(descriptor);
}

void StoreServer::accept_those_who_come() {
  const auto are_too_many = [this] { return silent_.size() + greeted_.size() > kMostStrangers; };
  while (!accepts_from_ && accept_one()) {
    const auto now = Clock::now();
    while (are_too_many() && make_room(now)) continue;
    if (are_too_many()) stop_accepting(next_room());
  }
}

/// Returns false if nobody is left to be accepted for now.
bool StoreServer::accept_one() {
  const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor < 0) {
    const bool is_full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (is_full && make_room(Clock::now())) return true;
    if (is_full) stop_accepting(Clock::now() + kWithoutDescriptors);
    return false;
  }
  if (is_local_ && !belongs_to_this_user(descriptor)) {
    ::close(descriptor);
    return true;
  }
  const StoreConnection& one = connections_.try_emplace(descriptor, descriptor, key_).first->second;
  silent_.emplace(one.since(), descriptor);
  epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
  if (::epoll_ctl(events_, EPOLL_CTL_ADD, descriptor, &event) != 0) end(descriptor);
  return true;
}

void StoreServer::stop_accepting(Clock::time_point until) {
  accepts_from_ = until;
  watch(listener_, 0);
}

void StoreServer::close_listener() {
  if (listener_ < 0) return;
  ::epoll_ctl(events_, EPOLL_CTL_DEL, listener_, nullptr);
  ::close(std::exchange(listener_, -1));
  accepts_from_.reset();
}

/// Notes what a connection waits for, after something has changed on it.
void StoreServer::look_at(int descriptor, StoreConnection& one) {
  if (one.has_greeted()) forget_stranger(descriptor, one);
  if (one.has_greeted() && one.is_stranger()) greeted_.emplace(one.since(), descriptor);
  if (const auto& waiting = one.waiting()) {
    waiting_.add(descriptor, waiting->request.key, waiting->until);
  } else {
    waiting_.remove(descriptor);
  }
  watch(descriptor, one.has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void StoreServer::watch(int descriptor, uint32_t events) const {
  epoll_event event{.events = events, .data = {.fd = descriptor}};
  ::epoll_ctl(events_, EPOLL_CTL_MOD, descriptor, &event);
}

void StoreServer::end(int descriptor) {
  const auto found = connections_.find(descriptor);
  forget_stranger(descriptor, found->second);
  waiting_.remove(descriptor);
  // Closing is not enough where a child of this process has the connection, too.
  ::epoll_ctl(events_, EPOLL_CTL_DEL, descriptor, nullptr);
  connections_.erase(found);
}

/// Serves the clients whose keys have been written, and those whose time is over.
void StoreServer::serve_waiting() {
  const auto now = Clock::now();
  for (const std::string& key : table_.take_written()) serve(waiting_.of(key), now);
  serve(waiting_.late(now), now);
}

void StoreServer::serve(const std::vector<int>& clients, Clock::time_point now) {
  for (const int client : clients) {
    StoreConnection& one = connections_.at(client);
    if (one.serve_waiting(serve_one_, now)) {
      look_at(client, one);
    } else {
      end(client);
    }
  }
}

bool StoreServer::belongs_to_this_user(int descriptor) {
  const auto user = other_user(descriptor);
  if (!user) return true;
  warn_once("a process of another user (uid " + std::to_string(*user) +
            ") tried to join this job and was refused; later ones are not reported");
  return false;
}

void StoreServer::drop_strangers(Clock::time_point now) {
  for (const Strangers* some : {&silent_, &greeted_}) {
    while (!some->empty() && now - some->begin()->first >= kLongestProofTime) end(some->begin()->second);
  }
}

void StoreServer::forget_stranger(int descriptor, const StoreConnection& one) {
  silent_.erase({one.since(), descriptor});
  greeted_.erase({one.since(), descriptor});
}

/// Ends one stranger; returns false if all have come too lately.
bool StoreServer::make_room(Clock::time_point now) {
  const bool is_silent = !silent_.empty() && now - silent_.begin()->first >= kShortestSilence;
  const bool is_slow = !greeted_.empty() && now - greeted_.begin()->first >= kShortestStay;
  if (is_silent || is_slow) end((is_silent ? silent_ : greeted_).begin()->second);
  return is_silent || is_slow;
}

/// Returns from when on a stranger can be ended to make room.
Clock::time_point StoreServer::next_room() const {
  auto from = Clock::time_point::max();
  if (!silent_.empty()) from = std::min(from, silent_.begin()->first + kShortestSilence);
  if (!greeted_.empty()) from = std::min(from, greeted_.begin()->first + kShortestStay);
  return from;
}

void StoreServer::warn_once(const std::string& sentence) {
  if (!std::exchange(has_warned_, true) && warn_) warn_(sentence);
}

void StoreServer::require_not_given_up() const {
  if (is_given_up_) throw PeerFailed("the rendezvous store of this process is closed, because the job has failed");
}

void StoreServer::set(const std::string& key, std::string_view value) {
  require_not_given_up();
  table_.set(key, value);
  wake();
}

std::optional<std::string> StoreServer::get(const std::string& key, std::chrono::nanoseconds timeout) {
  require_not_given_up();
  auto value = table_.get(key, Clock::now() + timeout);
  if (!value) require_not_given_up();
  return value;
}

int64_t StoreServer::add(const std::string& key, int64_t amount) {
  require_not_given_up();
  const int64_t sum = table_.add(key, amount);
  wake();
  return sum;
}

void StoreServer::remove(const std::string& key) {
  require_not_given_up();
  table_.remove(key);
}

uint64_t StoreServer::count() {
  require_not_given_up();
  return table_.count();
}

void StoreServer::all_ranks_met() {
  is_closing_ = true;
  wake();
}

void StoreServer::give_up() {
  is_given_up_ = true;
  table_.stop_waiting();
}

}  // namespace

Key public_key() {
  return derived_key({}, "this job has no secret");
}

int listen_locally(const std::string& name) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const LocalAddress address(name);
  if (descriptor >= 0 && ::bind(descriptor, address.get(), address.length()) == 0 &&
      ::listen(descriptor, kLocalBacklog) == 0) {
    return descriptor;
  }
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (reason == EADDRINUSE) {
    throw UserError(
        "another rank 0 of the same job runs on this machine; give this job a MASTER_PORT of its own, or "
        "wait for the other's end");
  }
  throw UserError(std::string("rank 0 has no socket for the others to connect to (") +
                  std::generic_category().message(reason) + "); look at the limit of open files (ulimit -n)");
}

std::unique_ptr<Store> serve_store(int descriptor, const Key& key, std::function<void(const std::string&)> warn) {
  return std::make_unique<StoreServer>(descriptor, key, std::move(warn));
}

}  // namespace cohort::host
