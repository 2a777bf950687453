// The cohort_host that components are given: finds service tables by id and keeps the messages that plugins leave.
//
// Every component gets a cohort_host of its own, so that services know which one calls: names of STATE buffers and of
// values in a checkpoint belong to the layer that used them.
//
// The object must outlive every component it was given to, and does not move. Any thread may call anything: messages
// are kept per thread, so that a lane's failure never shows up in the step's.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/types.h>

#include <cohort/api/host.h>
#include <cohort/host/flight_recorder.hpp>
#include <cohort/host/log.hpp>

namespace cohort::host {

class HostObject {
 public:
  /// The table with this id, or null. Called from any thread.
  using Lookup = std::function<const void*(std::string_view id)>;

  /// log/1 is always there and writes to `log`; every other table is asked of `lookup` (empty: there is none).
  /// Functions of those tables reach what they work on through services_of(host).
  explicit HostObject(Log& log, Lookup lookup = {}, void* services = nullptr);
  HostObject(const HostObject&) = delete;
  HostObject& operator=(const HostObject&) = delete;

  /// Returns the cohort_host of a caller that is no component.
  const cohort_host* get() const { return &doors_.front().host; }
  /// Makes the cohort_host of a component; it lives as long as this object. Not while another thread calls it.
  const cohort_host* get_for(std::string component);
  /// The same with other tables than the object's, and with what they work on.
  const cohort_host* get_for(std::string component, Lookup lookup, void* services);
  /// Returns the object behind a cohort_host that came from get() or get_for().
  static HostObject& of(const cohort_host* host) { return static_cast<Door*>(host->ctx)->owner; }
  /// Returns the name of the component that was given this cohort_host; "" if it came from get().
  static const std::string& component_of(const cohort_host* host) { return static_cast<Door*>(host->ctx)->component; }

  /// Returns what the tables of this cohort_host work on.
  static void* services_of(const cohort_host* host) { return static_cast<Door*>(host->ctx)->services; }

  Log& log() const { return log_; }
  FlightRecorder& recorder() { return recorder_; }

  /// Ends the process with a message and exit code 2 if it is a fork of the process that made this object. A fork lacks
  /// the threads of the rank, and two processes would use the memory and connections that the rank shares with others.
  void check_process() const;

  /// Keeps `message` for the call that this thread is in; what `host->fail` does. `peers`: what `host->fail_peers` was
  /// given.
  void leave_message(cohort_status status, std::string_view message, std::vector<int> peers = {});
  /// Gives the peers that this thread left for `status` the numbers `job_ranks`, by rank of a group; empty: they keep
  /// theirs. Only the first call after a failure does: a collective that is made of others passes their failures on.
  void number_peers(cohort_status status, const std::vector<int>& job_ranks);
  /// Returns the peers that this thread left for `status`.
  std::vector<int> peers_of(cohort_status status);
  /// The message that this thread left for `status`, or the name of the status where it left none; then forgets it. A
  /// message left for another status belongs to a failure that the plugin got over, and is dropped.
  std::string take_message(cohort_status status);
  /// Returns if `status` is COHORT_OK; else throws what throw_status throws, with "`what`: `message`", or the message
  /// alone if `what` is empty. Says so if nobody left one.
  void check(cohort_status status, std::string_view what);

 private:
  struct Failure {
    cohort_status status;
    std::string message;
    std::vector<int> peers;
    bool has_job_numbers = false;
  };

  struct Door {
    HostObject& owner;
    std::string component;
    Lookup lookup;
    void* services;
    cohort_host host{};

    const void* find_table(std::string_view id) const;
  };

  Log& log_;
  std::deque<Door> doors_;  // stable addresses: components hold pointers
  std::mutex mutex_;
  std::map<std::thread::id, Failure> failures_;
  FlightRecorder recorder_;
  pid_t process_;

  std::optional<std::string> take_words(cohort_status status);
  static const void* get_interface(const cohort_host* host, const char* id) noexcept;
  static cohort_status fail(const cohort_host* host, cohort_status status, const char* message) noexcept;
  static cohort_status fail_peers(const cohort_host* host, cohort_status status, const int32_t* ranks,
                                  uint64_t num_ranks, const char* message) noexcept;
};

}  // namespace cohort::host
