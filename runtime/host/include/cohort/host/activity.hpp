// Names what threads do, for the report of a crash or of a hang.
//
// The activities of a thread are nested, and the innermost one is told. Each owns nothing and is put into words only if
// it is asked for, so that one costs some nanoseconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cohort::host {

/// Puts texts one behind the other into memory that is given, up to its end. Safe in a signal handler.
class TextInRoom {
 public:
  explicit TextInRoom(std::span<char> room) : room_(room) {}
  TextInRoom& operator<<(std::string_view text) noexcept;
  TextInRoom& operator<<(int64_t number) noexcept;
  std::string_view text() const { return {room_.data(), size_}; }

 private:
  std::span<char> room_;
  size_t size_ = 0;
};

struct ActivitiesOfThread;

/// Names what this thread does as long as it lives. Nested ones end in the reverse order.
class Activity {
 public:
  /// Puts it into words, which continue "crashed in" and "waits for". Called in a signal handler, or on another thread
  /// while the activity lives.
  using Tell = void (*)(const void* subject, TextInRoom& text);
  Activity(const void* subject, Tell tell) noexcept;
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Puts this thread's innermost activity into words; nothing if there is none. Safe in a signal handler.
  static void tell_own(TextInRoom& text) noexcept;

 private:
  friend class ActivityWatch;
  const void* subject_;
  Tell tell_;
  const Activity* outer_;
};

/// Looks at the activities of the thread that makes it, from any thread. Ends before that thread does.
class ActivityWatch {
 public:
  ActivityWatch() noexcept;
  /// Returns how many activities have begun or ended since the thread began.
  uint64_t changes() const noexcept;
  /// Returns the innermost activity in words; empty if there is none.
  std::string text() const;

 private:
  ActivitiesOfThread* of_;
};

}  // namespace cohort::host
