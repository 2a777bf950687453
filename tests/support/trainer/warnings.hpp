// LibTorch's warnings, kept from the screen.
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <vector>

namespace cohort::testing {

/// While it lives, warnings of this thread are collected.
class Warnings {
 public:
  const std::vector<std::string>& texts() const { return collector_.texts; }

 private:
  struct Collector final : c10::WarningHandler {
    void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
    std::vector<std::string> texts;
  };
  Collector collector_;
  c10::WarningUtils::WarningHandlerGuard guard_{&collector_};
};

}  // namespace cohort::testing
