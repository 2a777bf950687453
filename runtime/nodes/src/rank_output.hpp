// Where the output of ranks on other hosts goes: to the same stream of this process, and to files where asked for.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include <cohort/host/log.hpp>

#include "message.hpp"

namespace cohort::nodes {

class RankOutput {
 public:
  /// Creates FOLDER/rank.N/stdout and stderr, N padded with zeros, and keeps the contents of existing files. An empty
  /// `folder` means no files. Throws UserError. `signals` is readable while there is a wish to end.
  RankOutput(std::filesystem::path folder, int ranks, int signals, host::Log& log);

  /// Empties the files, once: ranks are about to write into them.
  void begin();

  /// `stream` is kOutput or kErrors; what is no rank of the job, as -1, has no files. Waits for whoever reads this
  /// process's output, but not once there is a wish to end: then what is not taken soon is lost there.
  void write(MessageKind stream, int rank, std::string_view bytes);

  /// Shortens the waits for readers: the caller has read a wish to end from `signals`, so that write() no longer finds
  /// it there.
  void hurry() { patience_ms_ = patience_ms_ < 0 ? kPatienceAtTheEnd_ms : patience_ms_; }

 private:
  static constexpr int kPatienceAtTheEnd_ms = 200;

  std::filesystem::path file_of(MessageKind stream, int rank) const;
  std::vector<std::filesystem::path> files() const;
  [[noreturn]] static void refuse(const std::filesystem::path& file);
  void forward(int descriptor, std::string_view bytes);

  std::filesystem::path folder_;
  int ranks_;
  std::size_t digits_;
  int signals_;
  int patience_ms_ = -1;
  host::Log& log_;
  bool has_begun_ = false, has_warned_ = false;
};

}  // namespace cohort::nodes
