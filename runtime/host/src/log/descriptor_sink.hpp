// Writes each line to a file descriptor with one write, so that lines of several ranks on one terminal or pipe do not
// mix.
#pragma once

#include <mutex>

#include <spdlog/sinks/base_sink.h>

namespace cohort::host {

class DescriptorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  int descriptor_;  // borrowed
};

}  // namespace cohort::host
