// `cohort submit`: writes the job file of a scheduler and hands it in.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <cohort/submit.hpp>

namespace CLI {
class App;
}

namespace cohort::cli {

class SubmitCommand {
 public:
  /// Adds the subcommand; sets `chosen` where it is used. The result goes to `show`, which gives the exit code.
  SubmitCommand(CLI::App& app, std::function<int()>& chosen, std::function<int(const std::string&)> show);
  SubmitCommand(const SubmitCommand&) = delete;
  SubmitCommand& operator=(const SubmitCommand&) = delete;

  /// Takes PROGRAM and everything behind it off the arguments, so that nothing else reads them.
  void take_program(std::vector<std::string>& arguments);

 private:
  void add_options(CLI::App& submit);
  void add_lines(CLI::App& submit);
  int run() const;
  BatchJob job() const;
  Cluster cluster() const;

  std::function<int(const std::string&)> show_;
  std::string scheduler_, time_, stop_before_, log_dir_;
  BatchJob job_;
  struct SetupLine {
    bool is_module;
    std::string text;
  };
  std::vector<SetupLine> lines_;  // in the order in which they were given
  std::vector<std::string> directives_, grid_;
  bool no_requeue_ = false, dry_run_ = false, json_ = false;
};

}  // namespace cohort::cli
