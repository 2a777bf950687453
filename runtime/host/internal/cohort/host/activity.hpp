// Names the current activity of each thread, for the report of a crash or of a hang.
//
// The activities of a thread are nested, and a report names the innermost one. An activity owns nothing and becomes
// text only in a report, so that it costs a few nanoseconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cohort::host {

/// Appends texts to a fixed block of memory and cuts them off at its end. Safe in a signal handler.
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

/// Names the activity of this thread during its lifetime. Nested activities end in reverse order.
class Activity {
 public:
  /// Appends the name of the activity, such as "training_step, epoch 0". Called in a signal handler, or on another
  /// thread during the lifetime of the activity.
  using Tell = void (*)(const void* subject, TextInRoom& text);
  Activity(const void* subject, Tell tell) noexcept;
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Appends the name of this thread's innermost activity, or nothing without one. Safe in a signal handler.
  static void tell_own(TextInRoom& text) noexcept;

 private:
  friend class ActivityWatch;
  const void* subject_;
  Tell tell_;
  const Activity* outer_;
};

/// Lets any thread read the activities of the thread that constructed it. Must be destroyed before that thread ends.
class ActivityWatch {
 public:
  ActivityWatch() noexcept;
  /// Returns how many activities have begun or ended since the thread began.
  uint64_t changes() const noexcept;
  /// Returns the name of the innermost activity, or an empty text without one.
  std::string text() const;

 private:
  ActivitiesOfThread* of_;
};

}  // namespace cohort::host
