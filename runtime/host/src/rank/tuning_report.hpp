// What --autotune has found, for people and as a config file.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include <cohort/host/spec.hpp>

namespace cohort::host {

struct TuningResult {
  Spec strategy;                      // as chosen
  uint64_t bucket_size;               // bytes; 0: the strategy's own is the best
  std::string setting;                // "hierarchical=false", which the strategy did not have; empty: nothing else
  std::chrono::nanoseconds at_first;  // of a step
  std::chrono::nanoseconds now;       // 0: nothing could be tried
};

/// One line, with the flags to use it again.
std::string text_of(const TuningResult& result);
/// Writes a file for --config. Throws UserError if it cannot be written.
void write_config(const TuningResult& result, const std::filesystem::path& file);

}  // namespace cohort::host
