#include "log/descriptor_sink.hpp"

#include <algorithm>
#include <cerrno>

#include <sys/ioctl.h>
#include <unistd.h>

namespace cohort::host {
namespace {

constexpr const char* kEraseLine = "\r\033[K";
constexpr const char* kUpAndErase = "\033[1A\r\033[K";

std::size_t width_of(int terminal) {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

}  // namespace

// Returns what takes the status off the terminal, the cursor where it began.
std::string DescriptorSink::erased() const {
  std::string text = status_.empty() ? "" : kEraseLine;
  for (std::size_t i = 1; i < status_.size(); ++i) text += kUpAndErase;
  return text;
}

void DescriptorSink::show_status(const std::vector<std::string>& lines) {
  const std::lock_guard lock(mutex_);
  const std::string before = erased();
  status_ = lines;
  const std::size_t width = width_of(descriptor_) - 1;  // a full line would wrap
  for (std::string& line : status_) line.resize(std::min(line.size(), width));
  const std::string text = before + joined(status_);
  if (!text.empty()) write(text);
}

void DescriptorSink::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  if (status_.empty()) return write({line.data(), line.size()});
  write(erased() + std::string(line.data(), line.size()) + joined(status_));
}

void DescriptorSink::write(std::string_view rest) const {
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a closed standard error must not end the training
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace cohort::host
