// The second rank of a checkpoint, in a process that is the first one of two.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <thread>

#include "checkpoint/manifest.hpp"
#include "files/file_digest.hpp"

namespace cohort::testing {

namespace fs = std::filesystem;

/// Writes what another rank would into each checkpoint of the folder: this one's file under its own name, and its mark.
class OtherWriter {
 public:
  explicit OtherWriter(const fs::path& folder)
      : thread_([folder](const std::stop_token& stopped) {
          while (!stopped.stop_requested()) {
            for (const auto& checkpoint : fs::directory_iterator(folder)) write(checkpoint.path());
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}

 private:
  static void write(const fs::path& checkpoint) {
    const fs::path file = checkpoint / rank_file(1), mark = checkpoint / "written-1.json";
    std::error_code error;  // it may be published meanwhile
    if (!checkpoint.filename().string().starts_with(".partial-") || fs::exists(mark, error)) return;
    fs::copy_file(checkpoint / rank_file(0), file, error);
    if (error) return;
    const FileDigest digest = digest_of_file(file);
    std::ofstream(checkpoint / "mark") << R"({"files":{")" << rank_file(1) << R"(":{"bytes":)" << digest.bytes
                                       << R"(,"sha256":")" << digest.sha256 << R"("}},"own_state":[]})";
    fs::rename(checkpoint / "mark", mark, error);
  }

  std::jthread thread_;
};

}  // namespace cohort::testing
