#include "watched.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "counters.hpp"
#include "fakedrv.h"

namespace nccl_stand_in {
namespace {

constexpr std::chrono::seconds kLongestHold{20};  // of a caller that waits for its own call

struct Seen {
  std::array<std::atomic<bool>, FAKEDRV_DEVICES> contexts{};
  std::atomic<int> elsewhere{0}, broken{0}, held{0}, pools{0};
  std::atomic<uint64_t> kept{0};
  std::atomic<bool> is_held{false}, is_capturing{false};
};

// What tests say in place of the environment.
struct Settings {
  std::mutex mutex;
  std::map<std::string, std::string> texts;
};

Settings& settings() {
  static Settings& kept = *new Settings;  // threads read it until the process ends
  return kept;
}

Seen& seen() {
  static Seen kept;
  return kept;
}

}  // namespace

void note_context(int device) {
  seen().contexts.at(static_cast<std::size_t>(device)) = true;
}

void note_call_for(int device) {
  note_context(fakedrv_current_device());
  if (device != fakedrv_current_device()) ++seen().elsewhere;
}

void pass_gate() {
  const auto end = std::chrono::steady_clock::now() + kLongestHold;
  ++seen().held;
  while (seen().is_held && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  --seen().held;
}

bool breaks_capture(bool is_relaxed) {
  if (is_relaxed || !seen().is_capturing) return false;
  ++seen().broken;
  return true;
}

void note_pools(int change) {
  seen().pools += change;
}

void note_kept(uint64_t nbytes) {
  seen().kept = nbytes;
}

std::string text_of(const char* variable) {
  const std::lock_guard lock(settings().mutex);
  const auto found = settings().texts.find(variable);
  if (found != settings().texts.end()) return found->second;
  const char* const text = std::getenv(variable);
  return text ? text : "";
}

}  // namespace nccl_stand_in

using nccl_stand_in::seen;

extern "C" {

int nccl_stand_in_elsewhere(void) {
  return seen().elsewhere;
}
int nccl_stand_in_broken_captures(void) {
  return seen().broken;
}
int nccl_stand_in_has_context(int device) {
  return seen().contexts.at(static_cast<std::size_t>(device)) ? 1 : 0;
}
int nccl_stand_in_pools(void) {
  return seen().pools;
}
unsigned long long nccl_stand_in_kept(void) {
  return seen().kept;
}
void nccl_stand_in_set(const char* variable, const char* value) {
  nccl_stand_in::Settings& settings = nccl_stand_in::settings();
  const std::lock_guard lock(settings.mutex);
  settings.texts.erase(variable);
  if (value) settings.texts.emplace(variable, value);
}
void nccl_stand_in_capture(int is_on) {
  seen().is_capturing = is_on != 0;
}
void nccl_stand_in_hold(int is_on) {
  seen().is_held = is_on != 0;
}
int nccl_stand_in_held(void) {
  return seen().held;
}

}  // extern "C"
