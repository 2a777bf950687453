// `cohort libtorch`: says where LibTorch is, and brings it.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace cohort::cli {

class LibtorchCommand {
 public:
  /// Adds the subcommand; sets `chosen` if it is used.
  LibtorchCommand(CLI::App& app, std::function<int()>& chosen);
  LibtorchCommand(const LibtorchCommand&) = delete;
  LibtorchCommand& operator=(const LibtorchCommand&) = delete;

 private:
  /// Replaces this process by the script that stands beside the libraries. Throws UserError if the script cannot be
  /// executed.
  int run() const;

  bool install_ = false;
  std::string from_;
};

}  // namespace cohort::cli
