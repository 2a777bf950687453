#include "hosts/rank_output.hpp"

#include <unistd.h>

#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <cohort/host/error.hpp>

#include "hosts/descriptor.hpp"

namespace cohort::host {

RankOutput::RankOutput(std::filesystem::path folder, int ranks, Log& log)
    : folder_(std::move(folder)), digits_(std::to_string(ranks - 1).size()), log_(log) {
  if (folder_.empty()) return;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const MessageKind stream : {MessageKind::kOutput, MessageKind::kErrors}) {
      const auto file = file_of(stream, rank);
      std::error_code failure;
      std::filesystem::create_directories(file.parent_path(), failure);
      if (failure || !std::ofstream(file)) {
        throw UserError("--output-filename: '" + file.string() + "' cannot be written; give a folder that can");
      }
    }
  }
}

std::filesystem::path RankOutput::file_of(MessageKind stream, int rank) const {
  const std::string number = std::to_string(rank);
  return folder_ / ("rank." + std::string(digits_ - number.size(), '0') + number) /
         (stream == MessageKind::kOutput ? "stdout" : "stderr");
}

void RankOutput::write(MessageKind stream, int rank, std::string_view bytes) {
  write_all(stream == MessageKind::kOutput ? STDOUT_FILENO : STDERR_FILENO, bytes);
  if (folder_.empty() || rank < 0) return;
  // Opened anew each time: a large job has more files than a process may hold open.
  std::ofstream file(file_of(stream, rank), std::ios::app);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  if (!file && !std::exchange(has_warned_, true)) {
    log_.warning("--output-filename: '" + file_of(stream, rank).string() +
                 "' cannot be written any more; output is lost there, make room on the disk");
  }
}

}  // namespace cohort::host
