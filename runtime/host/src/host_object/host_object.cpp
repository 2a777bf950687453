#include <cohort/host/host_object.hpp>

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <cohort/api/host/log.h>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "host_object/guarded.hpp"

namespace cohort::host {
namespace {

LogLevel to_log_level(int32_t level) {
  return static_cast<LogLevel>(std::clamp(level, COHORT_LOG_DEBUG, COHORT_LOG_ERROR));
}

// Nothing may be thrown across the ABI; a line that cannot be written is lost.
void write_line(const cohort_host* host, int32_t level, const char* message) noexcept {
  try {
    HostObject::of(host).log().write(to_log_level(level), message ? message : "");
  } catch (...) {
  }
}

uint32_t is_enabled(const cohort_host* host, int32_t level) noexcept {
  return HostObject::of(host).log().enabled(to_log_level(level)) ? 1 : 0;
}

constexpr cohort_log_1 kLogTable{write_line, is_enabled};

}  // namespace

HostObject::HostObject(Log& log, Lookup lookup, void* services) : log_(log), process_(::getpid()) {
  get_for("", std::move(lookup), services);
}

const cohort_host* HostObject::get_for(std::string component) {
  return get_for(std::move(component), doors_.front().lookup, doors_.front().services);
}

const cohort_host* HostObject::get_for(std::string component, Lookup lookup, void* services) {
  Door& door = doors_.emplace_back(Door{*this, std::move(component), std::move(lookup), services});
  door.host = {sizeof(cohort_host), COHORT_ABI_VERSION, &door, "cohort",
               COHORT_VERSION,      get_interface,      fail,  fail_peers};
  return &door.host;
}

void HostObject::check_process() const {
  const pid_t own = ::getpid();
  if (own == process_) return;
  log_.error("process " + std::to_string(own) + " is a copy (fork) of the rank in process " + std::to_string(process_) +
             " and trains on beside it; let a copy do its own work and leave with exec or _exit");
  // _exit, because destructors would close communicators that the rank still uses.
  ::_exit(static_cast<int>(ExitCode::kUserMistake));
}

void HostObject::leave_message(cohort_status status, std::string_view message, std::vector<int> peers) {
  const std::lock_guard lock(mutex_);
  failures_.insert_or_assign(std::this_thread::get_id(), Failure{status, std::string(message), std::move(peers)});
}

void HostObject::number_peers(cohort_status status, const std::vector<int>& job_ranks) {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(std::this_thread::get_id());
  if (found == failures_.end() || found->second.status != status) return;
  Failure& failure = found->second;
  if (std::exchange(failure.has_job_numbers, true) || job_ranks.empty()) return;
  const auto size = static_cast<int>(job_ranks.size());
  std::erase_if(failure.peers, [size](int peer) { return peer < 0 || peer >= size; });
  for (int& peer : failure.peers) peer = job_ranks[static_cast<size_t>(peer)];
}

std::vector<int> HostObject::peers_of(cohort_status status) {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(std::this_thread::get_id());
  return found != failures_.end() && found->second.status == status ? found->second.peers : std::vector<int>{};
}

std::optional<std::string> HostObject::take_words(cohort_status status) {
  const std::lock_guard lock(mutex_);
  auto node = failures_.extract(std::this_thread::get_id());
  const bool fits = !node.empty() && node.mapped().status == status && !node.mapped().message.empty();
  return fits ? std::optional(std::move(node.mapped().message)) : std::nullopt;
}

std::string HostObject::take_message(cohort_status status) {
  return take_words(status).value_or(status_name(status));
}

void HostObject::check(cohort_status status, std::string_view what) {
  if (status == COHORT_OK) return;
  const auto words = take_words(status);
  const std::string message = (what.empty() ? "" : std::string(what) + ": ") +
                              words.value_or(status_name(status) + ", without a message; ask the plugin's authors");
  const bool is_of_a_peer =
      status == COHORT_DEADLINE_EXCEEDED || status == COHORT_UNAVAILABLE || status == COHORT_ABORTED;
  if (is_of_a_peer) throw ReportedFailure(status, message);
  throw_status(status, message);
}

const void* HostObject::Door::find_table(std::string_view id) const {
  if (id == COHORT_LOG_ID) return &kLogTable;
  return lookup ? lookup(id) : nullptr;
}

const void* HostObject::get_interface(const cohort_host* host, const char* id) noexcept {
  try {
    return id ? static_cast<Door*>(host->ctx)->find_table(id) : nullptr;
  } catch (...) {
    return nullptr;
  }
}

cohort_status HostObject::fail(const cohort_host* host, cohort_status status, const char* message) noexcept {
  try {
    of(host).leave_message(status, on_one_line(message ? message : ""));
  } catch (...) {
    // Without memory for the message the status alone has to do.
  }
  return status;
}

cohort_status HostObject::fail_peers(const cohort_host* host, cohort_status status, const int32_t* ranks,
                                     uint64_t num_ranks, const char* message) noexcept {
  try {
    const auto* const end = ranks ? ranks + num_ranks : ranks;
    of(host).leave_message(status, on_one_line(message ? message : ""), {ranks, end});
  } catch (...) {
    // Without memory for the message the status alone has to do.
  }
  return status;
}

}  // namespace cohort::host
