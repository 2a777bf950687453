#include "profile/event_log.hpp"

#include <pthread.h>

#include <array>

namespace cohort {
namespace {

std::string name_in_system() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return name.data();
}

}  // namespace

void EventLog::name_thread(std::string name) {
  const std::lock_guard lock(mutex_);
  threads_[thread_number()] = std::move(name);
}

void EventLog::add(Kind kind, std::string_view name, Stretch when, std::string_view arguments) {
  const std::lock_guard lock(mutex_);
  if (events_.size() == kMost) {
    ++left_out_;
    return;
  }
  events_.push_back({when, text_number(name), text_number(arguments), thread_number(), kind});
}

uint32_t EventLog::text_number(std::string_view text) {
  const auto found = number_of_text_.find(text);
  if (found != number_of_text_.end()) return found->second;
  const auto number = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(text);
  number_of_text_.emplace(text, number);
  return number;
}

// By the id of the library, which gives that of a thread that has ended to the next one: threads that come and go, as
// those that read batches may, are one line of the trace.
uint16_t EventLog::thread_number() {
  const auto number = static_cast<uint16_t>(threads_.size());
  const auto [found, is_new] = number_of_thread_.try_emplace(std::this_thread::get_id(), number);
  if (!is_new) return found->second;
  std::string name = name_in_system();
  if (threads_.empty()) name_to_inherit_ = name;
  if (!threads_.empty() && name == name_to_inherit_) name = "thread " + std::to_string(number);
  threads_.push_back(std::move(name));
  return number;
}

}  // namespace cohort
