// `cohort env`: what a program started here would see.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace cohort::cli {

class EnvCommand {
 public:
  /// Adds the subcommand; sets `chosen` where it is used. The result goes to `show`, which gives the exit code.
  EnvCommand(CLI::App& app, std::function<int()>& chosen, std::function<int(const std::string&)> show);
  EnvCommand(const EnvCommand&) = delete;
  EnvCommand& operator=(const EnvCommand&) = delete;

 private:
  int run() const;

  std::function<int(const std::string&)> show_;
  bool json_ = false;
};

}  // namespace cohort::cli
