// The events of a trace: each says what a thread of the rank did in one of the traced steps, and when.
//
// Any thread adds. It is read when nobody adds any more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace cohort {

/// Returns the time of the clock that all events have: CLOCK_MONOTONIC, which processes of one machine share.
inline int64_t clock_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// The time from when something began to when it ended.
struct Stretch {
  int64_t begun_ns = 0;
  int64_t ended_ns = 0;
};

class EventLog {
 public:
  static constexpr size_t kMost = 300'000;  ///< events; later ones are only counted

  enum class Kind : uint8_t { kPhase, kStep, kOperator, kBucket, kOperation };
  struct Event {
    Stretch when;
    uint32_t name = 0;       ///< number of a text
    uint32_t arguments = 0;  ///< number of a text, a JSON object or ""
    uint16_t thread = 0;
    Kind kind = Kind::kPhase;
  };

  /// Gives the calling thread this name. One without a name gets that of the system, or "thread N" if it is called like
  /// the first one: threads inherit names.
  void name_thread(std::string name);
  /// Adds an event of the calling thread. `arguments` is a JSON object, or empty.
  void add(Kind kind, std::string_view name, Stretch when, std::string_view arguments = {});

  const std::deque<Event>& events() const { return events_; }
  const std::string& text(uint32_t number) const { return texts_[number]; }
  const std::vector<std::string>& threads() const { return threads_; }
  uint64_t left_out() const { return left_out_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::mutex mutex_;
  std::deque<Event> events_;
  uint64_t left_out_ = 0;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> number_of_text_;
  std::vector<std::string> threads_;  // names
  std::string name_to_inherit_;
  std::unordered_map<std::thread::id, uint16_t> number_of_thread_;

  uint32_t text_number(std::string_view text);
  uint16_t thread_number();
};

}  // namespace cohort
