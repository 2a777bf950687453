#include "log/descriptor_sink.hpp"

#include <cerrno>
#include <string_view>

#include <unistd.h>

namespace cohort::host {

void DescriptorSink::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  std::string_view rest(line.data(), line.size());
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a closed standard error must not end the training
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace cohort::host
