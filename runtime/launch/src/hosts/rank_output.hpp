// Where the output of ranks on other hosts goes: to the same stream of this process, and to files where asked for.
#pragma once

#include <filesystem>
#include <string_view>

#include <cohort/host/log.hpp>

#include "hosts/message.hpp"

namespace cohort::host {

class RankOutput {
 public:
  /// Makes FOLDER/rank.N/stdout and stderr, empty, N filled up with zeros; no folder: no files. Throws UserError.
  RankOutput(std::filesystem::path folder, int ranks, Log& log);

  /// `stream` is kOutput or kErrors; rank -1 has no files.
  void write(MessageKind stream, int rank, std::string_view bytes);

 private:
  std::filesystem::path file_of(MessageKind stream, int rank) const;

  std::filesystem::path folder_;
  std::size_t digits_;
  Log& log_;
  bool has_warned_ = false;
};

}  // namespace cohort::host
