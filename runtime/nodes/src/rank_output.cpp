#include "rank_output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::nodes {

RankOutput::RankOutput(std::filesystem::path folder, int ranks, int signals, host::Log& log)
    : folder_(std::move(folder)),
      ranks_(ranks),
      digits_(std::to_string(ranks - 1).size()),
      signals_(signals),
      log_(log) {
  for (const auto& file : files()) {
    std::error_code failure;
    std::filesystem::create_directories(file.parent_path(), failure);
    const auto kind = std::filesystem::status(file, failure).type();
    const bool can_be_file =  // opening a pipe would block
        kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found;
    if (!can_be_file || !std::ofstream(file, std::ios::app)) refuse(file);
  }
}

// A job that comes to nothing must not cost the output of an earlier one; one that starts again has begun before.
void RankOutput::begin() {
  if (std::exchange(has_begun_, true)) return;
  for (const auto& file : files()) {
    if (!std::ofstream(file)) refuse(file);
  }
}

void RankOutput::refuse(const std::filesystem::path& file) {
  throw UserError("--output-filename: " + host::in_quotes(file.string()) +
                  " cannot be written; give a folder that can");
}

std::vector<std::filesystem::path> RankOutput::files() const {
  std::vector<std::filesystem::path> files;
  for (int rank = 0; rank < ranks_ && !folder_.empty(); ++rank) {
    for (const MessageKind stream : {MessageKind::kOutput, MessageKind::kErrors})
      files.push_back(file_of(stream, rank));
  }
  return files;
}

std::filesystem::path RankOutput::file_of(MessageKind stream, int rank) const {
  const std::string number = std::to_string(rank);
  return folder_ / ("rank." + std::string(digits_ - number.size(), '0') + number) /
         (stream == MessageKind::kOutput ? "stdout" : "stderr");
}

// In pieces that a pipe takes whole once it takes any.
void RankOutput::forward(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    std::array<pollfd, 2> waits{{{descriptor, POLLOUT, 0}, {patience_ms_ < 0 ? signals_ : -1, POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), patience_ms_) < 0) continue;  // interrupted
    if (waits[1].revents != 0) hurry();
    if (waits[0].revents == 0 && waits[1].revents != 0) continue;
    if (waits[0].revents == 0) {
      patience_ms_ = 0;
      return;
    }
    const ssize_t written = ::write(descriptor, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void RankOutput::write(MessageKind stream, int rank, std::string_view bytes) {
  forward(stream == MessageKind::kOutput ? STDOUT_FILENO : STDERR_FILENO, bytes);
  if (folder_.empty() || rank < 0 || rank >= ranks_) return;
  // Opened anew each time: a large job has more files than a process may hold open.
  std::ofstream file(file_of(stream, rank), std::ios::app);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  if (!file && !std::exchange(has_warned_, true)) {
    log_.warning("--output-filename: " + host::in_quotes(file_of(stream, rank).string()) +
                 " cannot be written any more; output is lost there, make room on the disk");
  }
}

}  // namespace cohort::nodes
