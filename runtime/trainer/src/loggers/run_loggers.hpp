// The loggers of a training, as a callback of rank 0: they get the values of each logged step, each validation and each
// epoch, in a folder of the run.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cohort/callback.hpp>
#include <cohort/logger.hpp>
#include <cohort/run_record.hpp>
#include <cohort/trainer.hpp>

namespace cohort {

struct RunLogging {
  std::filesystem::path dir;  ///< gets a folder version_N for each run
  std::vector<Spec> kinds{};  ///< "csv", "json", "tensorboard", or a plugin's
  std::vector<MakeLogger> makers{};
  HyperParameters parameters{};
  bool continues = false;  ///< this run is a further part of the one that wrote the checkpoint which it resumes
};

/// Throws UserError if one of these is no logger.
void check_loggers(host::PluginHost& plugins, std::span<const Spec> kinds);

/// Opens the loggers at the start of fit: in a new folder, or in that of the run which it continues. A program's n-th
/// fit has the folder fit-n in it. `record` remembers the folder of the run.
std::shared_ptr<Callback> log_to(RunLogging logging, RunRecord& record);

}  // namespace cohort
