// Writes each line to a file descriptor with one write, so that lines of several ranks on one terminal or pipe do not
// mix. On a terminal it keeps status lines below all others: a line erases them and draws them again.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/sinks/base_sink.h>

namespace cohort::host {

class DescriptorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}

  /// Replaces the status lines, each cut to the terminal's width; none erases them. Any thread.
  void show_status(const std::vector<std::string>& lines);

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  std::string erased() const;
  void write(std::string_view text) const;

  int descriptor_;                   // borrowed
  std::vector<std::string> status_;  // on the terminal, the cursor at its end
};

}  // namespace cohort::host
