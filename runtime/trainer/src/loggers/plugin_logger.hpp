// A logger of a plugin as one of the Trainer's.
#pragma once

#include <filesystem>

#include <cohort/host/logger_plugin.hpp>
#include <cohort/logger.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Writes numbers, without text and histograms, which plugins do not take.
class PluginLogger final : public Logger {
 public:
  PluginLogger(Runtime& runtime, const Spec& spec, const std::filesystem::path& folder)
      : plugin_(runtime.plugins(), spec, runtime.log(), folder) {}

  void resume_after(uint64_t step) override { plugin_.resume_after(step); }
  void log_hyper_parameters(const HyperParameters& parameters) override;
  void log_metrics(const MetricsRow& row) override { plugin_.log_values(row.step, row.epoch, row.values); }
  void flush() override { plugin_.flush(); }
  void completed() override { plugin_.completed(); }

 private:
  host::LoggerPlugin plugin_;
};

}  // namespace cohort
