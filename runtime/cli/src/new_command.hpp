// `cohort new`: copies a small project under the name that the user gives.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace cohort::cli {

class NewCommand {
 public:
  /// Adds the subcommand; sets `chosen` if it is used. `show` prints the result and returns the exit code.
  NewCommand(CLI::App& app, std::function<int()>& chosen, std::function<int(const std::string&)> show);
  NewCommand(const NewCommand&) = delete;
  NewCommand& operator=(const NewCommand&) = delete;

 private:
  int run() const;

  std::function<int(const std::string&)> show_;
  std::string name_;
};

}  // namespace cohort::cli
