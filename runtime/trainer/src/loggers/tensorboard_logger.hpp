// Everything that a run tells, as event files that TensorBoard shows.
//
// Each process that logs writes a file of its own. One that goes on with an earlier run begins its file with a START of
// the step after the last that it keeps; TensorBoard then forgets that step and later ones of the files before. A
// record that a crash has torn is the last of its file, and readers go on with the next file.
#pragma once

#include <filesystem>

#include <cohort/logger.hpp>

#include "loggers/event_file.hpp"
#include "loggers/protobuf.hpp"

namespace cohort {

class TensorBoardLogger final : public Logger {
 public:
  /// Begins an event file in the folder. Throws UserError if it cannot be written.
  explicit TensorBoardLogger(const std::filesystem::path& folder);

  void resume_after(uint64_t step) override;
  void log_hyper_parameters(const HyperParameters& parameters) override;
  /// Writes the epoch, too, as a scalar of that name.
  void log_metrics(const MetricsRow& row) override;
  void log_text(std::string_view name, std::string_view text, uint64_t step) override;
  void log_histogram(std::string_view name, const at::Tensor& tensor, uint64_t step) override;
  void flush() override { file_.flush(); }
  void completed() override;

 private:
  void append(const ProtobufMessage& value, uint64_t step);

  EventFile file_;
};

}  // namespace cohort
