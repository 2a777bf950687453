// The asking end of a served store.
//
// One connection, on which threads ask without waiting for each other, and take their answers in the order in which
// they have asked. The server ends a client's wait for a key as soon as the client says something else, so that a call
// that waits keeps no other one waiting. Waits for a key are made of pieces, because a server that does not answer is
// given up.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/served_store.hpp>

#include "store/local_address.hpp"
#include "store/sealed_channel.hpp"
#include "store/store_message.hpp"

namespace cohort::host {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

constexpr auto kPieceOfWait = 1s;
constexpr auto kPauseForOthers = 20ms;
constexpr auto kFirstPause = 1ms;
constexpr auto kLongestPause = 20ms;
constexpr auto kLongestLookup = 2s;  // servers of names that do not answer cost up to 30 s
constexpr std::chrono::milliseconds kFirstLookupPause = 50ms, kLongestLookupPause = 1s;
constexpr auto kLongestConnect = 5s;
constexpr auto kLongestGreeting = 5s;

using Addresses = std::shared_ptr<addrinfo>;

struct Lookup {
  int failure = EAI_AGAIN;  // what getaddrinfo returns
  Addresses addresses;
};

Lookup look_up(const std::string& host, int port) {
  std::packaged_task<Lookup()> task([host, port] {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (failure != 0) return Lookup{failure, nullptr};
    return Lookup{0, {found, &::freeaddrinfo}};
  });
  std::future<Lookup> found = task.get_future();
  std::thread(std::move(task)).detach();  // getaddrinfo cannot be ended
  return found.wait_for(kLongestLookup) == std::future_status::ready ? found.get() : Lookup{};
}

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

/// Waits until a socket can be used; false at the deadline.
bool await_socket(int descriptor, short events, Deadline deadline) {
  pollfd wait{descriptor, events, 0};
  while (true) {
    const int ready = ::poll(&wait, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0 && Clock::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// A connected socket that does not block.
class StoreSocket {
 public:
  StoreSocket() = default;
  explicit StoreSocket(int descriptor) : descriptor_(descriptor) {}
  ~StoreSocket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  StoreSocket(StoreSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  StoreSocket& operator=(StoreSocket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  bool send(std::string_view bytes, Deadline deadline) const;
  /// Adds what comes next; false if the connection ends, or at the deadline.
  bool receive(std::string& received, Deadline deadline) const;
  void shut_down() const { ::shutdown(descriptor_, SHUT_RDWR); }

 private:
  int descriptor_ = -1;
};

bool StoreSocket::send(std::string_view bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN ? !await_socket(descriptor_, POLLOUT, deadline) : errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool StoreSocket::receive(std::string& received, Deadline deadline) const {
  std::array<char, 65536> bytes;
  while (await_socket(descriptor_, POLLIN, deadline)) {
    const ssize_t length = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (length > 0) received.append(bytes.data(), static_cast<std::size_t>(length));
    return length > 0;
  }
  return false;
}

/// Returns a socket that is connected, or none and the reason in errno.
StoreSocket connect_socket(int family, const sockaddr* address, socklen_t length, Deadline deadline) {
  StoreSocket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return {};
  if (::connect(socket.descriptor(), address, length) == 0) return socket;
  if (errno != EINPROGRESS) return {};
  if (!await_socket(socket.descriptor(), POLLOUT, std::min(deadline, Clock::now() + kLongestConnect))) {
    errno = ETIMEDOUT;
    return {};
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  return error == 0 ? std::move(socket) : StoreSocket{};
}

void require_same_user(const StoreSocket& socket) {
  const auto user = other_user(socket.descriptor());
  if (!user) return;
  throw UserError("the ranks of this job cannot meet: a process of another user (uid " + std::to_string(*user) +
                  ") holds the socket of rank 0; give the job another MASTER_PORT");
}

class StoreClient final : public Store {
 public:
  StoreClient(const StoreAddress& address, const Key& key, std::chrono::nanoseconds timeout);

  void set(const std::string& key, std::string_view value) override;
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override;
  std::optional<std::string> try_get(const std::string& key) override { return get(key, 0ns); }
  int64_t add(const std::string& key, int64_t amount) override;
  void remove(const std::string& key) override;
  uint64_t count() override;
  void limit_calls(std::chrono::milliseconds longest) override { longest_call_ = longest; }
  void give_up() override;

 private:
  using Operation = StoreRequest::Operation;

  bool connect_once(Deadline deadline);
  StoreSocket open_socket(Deadline deadline);
  bool prove(Deadline deadline);
  StoreAnswer call(const StoreRequest& request);
  std::optional<std::string> answer(Deadline deadline);
  std::optional<std::string> answer_in_turn(const std::string& request, Deadline deadline);
  [[noreturn]] void throw_unreached(std::chrono::nanoseconds timeout) const;

  const StoreAddress address_;
  const Key key_;
  Deadline next_lookup_{};
  std::chrono::milliseconds lookup_pause_ = kFirstLookupPause;
  Lookup host_;  // the last one: the name of a host that is being started may be known later
  std::atomic<std::chrono::milliseconds> longest_call_;
  std::atomic<bool> is_gone_{false};  // a late answer would be taken for that to the next question
  StoreSocket socket_;
  std::optional<SealedChannel> channel_;
  std::string received_;  // of the thread whose turn it is
  std::mutex asking_;     // of the channel's sending half, and of:
  uint64_t asked_ = 0;
  std::mutex turns_;  // of:
  std::condition_variable turn_ends_;
  uint64_t answered_ = 0;
};

StoreClient::StoreClient(const StoreAddress& address, const Key& key, std::chrono::nanoseconds timeout)
    : address_(address), key_(key), longest_call_(std::chrono::ceil<std::chrono::milliseconds>(timeout)) {
  const Deadline deadline = Clock::now() + timeout;
  for (std::chrono::milliseconds pause = kFirstPause; !connect_once(deadline);
       pause = std::min(2 * pause, kLongestPause)) {
    if (Clock::now() >= deadline) throw_unreached(timeout);
    std::this_thread::sleep_for(pause);
  }
}

bool StoreClient::connect_once(Deadline deadline) {
  socket_ = open_socket(deadline);
  return socket_.is_open() && prove(std::min(deadline, Clock::now() + kLongestGreeting));
}

StoreSocket StoreClient::open_socket(Deadline deadline) {
  if (!address_.local.empty()) {
    const LocalAddress local(address_.local);
    StoreSocket socket = connect_socket(AF_UNIX, local.get(), local.length(), deadline);
    if (socket.is_open()) require_same_user(socket);
    return socket;
  }
  if (host_.failure != 0 && Clock::now() >= next_lookup_) {
    host_ = look_up(address_.host, address_.port);
    next_lookup_ = Clock::now() + lookup_pause_;
    lookup_pause_ = std::min(2 * lookup_pause_, kLongestLookupPause);
  }
  for (const addrinfo* one = host_.addresses.get(); one != nullptr; one = one->ai_next) {
    StoreSocket socket = connect_socket(one->ai_family, one->ai_addr, one->ai_addrlen, deadline);
    if (!socket.is_open()) continue;
    const int on = 1;
    ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return socket;
  }
  return {};
}

/// Returns false if what answers is no store, or a busy one: it may be there later.
bool StoreClient::prove(Deadline deadline) {
  const Greeting own;
  received_.clear();
  if (!socket_.send(own.bytes(), deadline)) return false;
  while (received_.size() < Greeting::kBytes) {
    if (!socket_.receive(received_, deadline)) return false;
  }
  const auto server = Greeting::from(std::string_view(received_).substr(0, Greeting::kBytes));
  if (!server) return false;
  received_.erase(0, Greeting::kBytes);
  channel_.emplace(SealedChannel::End::kClient, key_, *server, own);
  if (socket_.send(channel_->seal(""), deadline) && answer(deadline)) return true;
  if (!received_.starts_with(kRefusal)) return false;
  throw UserError(
      "rank 0 refuses this rank, because the two do not have the same job secret; give all ranks of a job "
      "the same COHORT_JOB_SECRET_FILE, or none of them");
}

/// Returns the next answer; nothing if there is none that the server has sealed.
std::optional<std::string> StoreClient::answer(Deadline deadline) {
  try {
    while (true) {
      if (auto text = channel_->open(received_, kLongestMessage)) return text;
      if (!socket_.receive(received_, deadline)) return std::nullopt;
    }
  } catch (const SealedChannel::Forged&) {
    return std::nullopt;
  }
}

/// Asks, and returns the answer once those who have asked before have theirs; nothing if the server is gone.
std::optional<std::string> StoreClient::answer_in_turn(const std::string& request, Deadline deadline) {
  uint64_t turn = 0;
  {
    const std::lock_guard lock(asking_);
    turn = asked_++;
    if (!socket_.send(channel_->seal(request), deadline)) return std::nullopt;
  }
  {
    std::unique_lock lock(turns_);
    const auto is_on = [&] { return answered_ == turn || is_gone_; };
    if (!turn_ends_.wait_until(lock, deadline, is_on) || is_gone_) return std::nullopt;
  }
  auto text = answer(deadline);
  const std::lock_guard lock(turns_);
  if (text) ++answered_;
  if (!text) is_gone_ = true;  // before the next one takes a late answer for its own
  turn_ends_.notify_all();
  return text;
}

StoreAnswer StoreClient::call(const StoreRequest& request) {
  if (!is_gone_) {
    const auto waits = std::chrono::milliseconds(request.operation == Operation::kGet ? request.number : 0);
    const auto text = answer_in_turn(to_bytes(request), Clock::now() + longest_call_.load() + waits);
    const auto answer = text ? answer_from(*text) : std::nullopt;
    if (answer && !is_gone_) return *answer;
    give_up();
  }
  throw PeerFailed("the rendezvous store of rank 0 does not answer: that process is gone or stopped");
}

void StoreClient::set(const std::string& key, std::string_view value) {
  call({.operation = Operation::kSet, .key = key, .value = std::string(value)});
}

std::optional<std::string> StoreClient::get(const std::string& key, std::chrono::nanoseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const auto wait = std::clamp<std::chrono::milliseconds>(left, 0ms, kPieceOfWait);
    const Deadline end_of_piece = Clock::now() + wait;
    StoreAnswer answer = call({.operation = Operation::kGet, .number = wait.count(), .key = key});
    if (answer.is_there) return std::move(answer.value);
    if (Clock::now() >= deadline) return std::nullopt;
    // Another thread has asked something. If it waits as well, the two must not end each other's waits all the time.
    if (Clock::now() < end_of_piece) std::this_thread::sleep_for(kPauseForOthers);
  }
}

int64_t StoreClient::add(const std::string& key, int64_t amount) {
  return call({.operation = Operation::kAdd, .number = amount, .key = key}).number;
}

void StoreClient::remove(const std::string& key) {
  call({.operation = Operation::kRemove, .key = key});
}

uint64_t StoreClient::count() {
  return static_cast<uint64_t>(call({.operation = Operation::kCount}).number);
}

void StoreClient::give_up() {
  {
    const std::lock_guard lock(turns_);
    is_gone_ = true;
  }
  turn_ends_.notify_all();
  socket_.shut_down();
}

void StoreClient::throw_unreached(std::chrono::nanoseconds timeout) const {
  const std::string time = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) + " s";
  if (!address_.local.empty()) {
    throw PeerFailed(
        "rank 0 of this job did not come within " + time +
        ": it does not run on this machine, is stopped, or has another MASTER_PORT, run or secret; look at its log");
  }
  if (host_.failure != 0) {
    const std::string problem =
        "MASTER_ADDR " + in_quotes(address_.host) + " cannot be resolved (" + ::gai_strerror(host_.failure) + "); ";
    if (host_.failure == EAI_AGAIN) throw PeerFailed(problem + "look whether this machine reaches its name server");
    throw UserError(problem + "give a name or an address of rank 0 that this machine knows");
  }
  throw PeerFailed("nobody answered at the rendezvous address " + address_.host + ":" + std::to_string(address_.port) +
                   " within " + time + ": rank 0 is not running there, or MASTER_ADDR and MASTER_PORT are wrong");
}

}  // namespace

std::unique_ptr<Store> connect_to_store(const StoreAddress& address, const Key& key, std::chrono::nanoseconds timeout) {
  return std::make_unique<StoreClient>(address, key, timeout);
}

}  // namespace cohort::host
