#include "store/store_connection.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace cohort::host {

StoreConnection::StoreConnection(int descriptor, const Key& key) : descriptor_(descriptor), key_(key) {}

StoreConnection::~StoreConnection() {
  ::close(descriptor_);
}

bool StoreConnection::receive(const Serve& serve) {
  std::array<char, 65536> bytes;
  const ssize_t length = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (length < 0) return errno == EAGAIN || errno == EINTR;
  if (length == 0) return false;
  received_.append(bytes.data(), static_cast<std::size_t>(length));
  if (!channel_ && received_.size() >= Greeting::kBytes && !greet()) return false;
  return !channel_ || take_frames(serve);
}

bool StoreConnection::greet() {
  const auto client = Greeting::from(std::string_view(received_).substr(0, Greeting::kBytes));
  if (!client) return false;
  received_.erase(0, Greeting::kBytes);
  const Greeting own;
  channel_.emplace(SealedChannel::End::kServer, key_, own, *client);
  unsent_ += own.bytes();
  return send_rest();
}

bool StoreConnection::take_frames(const Serve& serve) {
  try {
    while (true) {
      const auto text = channel_->open(received_, is_member_ ? kLongestMessage : kLongestProof);
      if (!text) return true;
      if (std::exchange(waiting_, std::nullopt) && !answer({.is_there = false})) return false;
      if (!handle(*text, serve)) return false;
    }
  } catch (const SealedChannel::Forged&) {
    is_refused_ = !is_member_;
    unsent_ += kRefusal;
    send_rest();
    return false;
  }
}

bool StoreConnection::handle(const std::string& text, const Serve& serve) {
  if (!is_member_) {  // it could seal this frame, which is the proof
    is_member_ = true;
    return answer({});
  }
  const auto request = request_from(text);
  if (!request) return false;
  if (const auto found = serve(*request)) return answer(*found);
  if (request->number <= 0) return answer({.is_there = false});
  waiting_ = Waiting{*request, Clock::now() + std::chrono::milliseconds(request->number)};
  return true;
}

bool StoreConnection::serve_waiting(const Serve& serve, Clock::time_point now) {
  if (!waiting_) return true;
  const auto found = serve(waiting_->request);
  if (!found && now < waiting_->until) return true;
  waiting_.reset();
  return answer(found.value_or(StoreAnswer{.is_there = false}));
}

bool StoreConnection::answer(const StoreAnswer& answer) {
  unsent_ += channel_->seal(to_bytes(answer));
  return send_rest();
}

bool StoreConnection::send_rest() {
  while (!unsent_.empty()) {
    const ssize_t length = ::send(descriptor_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return errno == EAGAIN;
    unsent_.erase(0, static_cast<std::size_t>(length));
  }
  return true;
}

}  // namespace cohort::host
