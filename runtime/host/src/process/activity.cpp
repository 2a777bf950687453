#include <cohort/host/activity.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>

namespace cohort::host {

struct ActivitiesOfThread {
  std::atomic<const Activity*> innermost{nullptr};
  std::atomic<uint64_t> changes{0};
  std::atomic<int> readers{0};

  // The thread alone changes it.
  void enter(const Activity* activity) noexcept {
    innermost.store(activity);
    changes.store(changes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

namespace {

constexpr size_t kLongest = 512;

// Allocated with the thread, because a signal handler must not allocate it.
[[gnu::tls_model("initial-exec")]] constinit thread_local ActivitiesOfThread of_this_thread;

}  // namespace

TextInRoom& TextInRoom::operator<<(std::string_view text) noexcept {
  const size_t fits = std::min(text.size(), room_.size() - size_);
  std::copy_n(text.data(), fits, room_.data() + size_);
  size_ += fits;
  return *this;
}

TextInRoom& TextInRoom::operator<<(int64_t number) noexcept {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return *this << std::string_view(digits.data(), static_cast<size_t>(end - digits.data()));
}

Activity::Activity(const void* subject, Tell tell) noexcept
    : subject_(subject), tell_(tell), outer_(of_this_thread.innermost.load(std::memory_order_relaxed)) {
  of_this_thread.enter(this);
}

// Waits for a watch that is reading this activity.
Activity::~Activity() {
  of_this_thread.enter(outer_);
  while (of_this_thread.readers.load() != 0) continue;
}

void Activity::tell_own(TextInRoom& text) noexcept {
  const Activity* const innermost = of_this_thread.innermost.load(std::memory_order_relaxed);
  if (innermost) innermost->tell_(innermost->subject_, text);
}

ActivityWatch::ActivityWatch() noexcept : of_(&of_this_thread) {}

uint64_t ActivityWatch::changes() const noexcept {
  return of_->changes.load(std::memory_order_relaxed);
}

std::string ActivityWatch::text() const {
  std::array<char, kLongest> room{};
  TextInRoom text(room);
  ++of_->readers;
  if (const Activity* const innermost = of_->innermost.load()) innermost->tell_(innermost->subject_, text);
  --of_->readers;
  return std::string(text.text());
}

}  // namespace cohort::host
