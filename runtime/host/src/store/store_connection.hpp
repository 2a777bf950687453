// A server's connection to one client, from its greeting to its end.
//
// A client that has not proved that it knows the key is a stranger. Strangers get a greeting and nothing else.
// Threads: the server's.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "store/sealed_channel.hpp"
#include "store/store_message.hpp"

namespace cohort::host {

class StoreConnection {
 public:
  using Clock = std::chrono::steady_clock;
  /// Answers a request, or returns nothing if the key that it waits for does not exist.
  using Serve = std::function<std::optional<StoreAnswer>(const StoreRequest&)>;

  /// Owns the descriptor, which does not block.
  StoreConnection(int descriptor, const Key& key);
  ~StoreConnection();
  StoreConnection(const StoreConnection&) = delete;
  StoreConnection& operator=(const StoreConnection&) = delete;

  int descriptor() const { return descriptor_; }
  bool has_unsent() const { return !unsent_.empty(); }
  bool has_greeted() const { return channel_.has_value(); }
  bool is_stranger() const { return !is_member_; }  ///< it has not proved that it knows the key
  Clock::time_point since() const { return since_; }
  /// Returns whether a stranger gave a wrong proof, rather than none.
  bool is_refused() const { return is_refused_; }
  struct Waiting {
    StoreRequest request;
    Clock::time_point until;
  };
  /// Returns what the client waits for; nothing if it waits for no key. A client that says something gives its wait up.
  const std::optional<Waiting>& waiting() const { return waiting_; }

  /// Reads what has come and serves it. Returns false once the connection has ended.
  bool receive(const Serve& serve);
  /// Sends what is left; false once the connection has ended.
  bool send_rest();
  /// Serves a waiting client again, finally if its time is over; false once the connection has ended.
  bool serve_waiting(const Serve& serve, Clock::time_point now);

 private:
  bool greet();
  bool take_frames(const Serve& serve);
  bool handle(const std::string& text, const Serve& serve);
  bool answer(const StoreAnswer& answer);

  int descriptor_;
  Key key_;
  Clock::time_point since_ = Clock::now();
  std::optional<SealedChannel> channel_;  // once greeted
  bool is_member_ = false, is_refused_ = false;
  std::string received_, unsent_;
  std::optional<Waiting> waiting_;
};

}  // namespace cohort::host
