#include "libtorch_command.hpp"

#include <unistd.h>

#include <vector>

#include <CLI/App.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/process.hpp>

#include "installation.hpp"

namespace cohort::cli {

LibtorchCommand::LibtorchCommand(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* libtorch = app.add_subcommand("libtorch", "which LibTorch this installation has; --install brings it");
  CLI::Option* install = libtorch->add_flag("--install", install_, "download the LibTorch that cohort was built with");
  libtorch
      ->add_option("--from", from_, "link the one in this folder instead: an unpacked wheel, a site-packages folder")
      ->type_name("FOLDER")
      ->needs(install);
  libtorch->callback([this, &chosen] { chosen = [this] { return run(); }; });
}

int LibtorchCommand::run() const {
  const Installation here = installation();
  std::vector<std::string> words{here.script, "--as=" + here.command.string(), "--version=" COHORT_LIBTORCH_VERSION};
  if (install_) words.push_back("--install");
  if (!from_.empty()) words.push_back("--from=" + from_);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  host::restore_write_signals();
  ::execv(arguments[0], arguments.data());
  throw UserError("cohort libtorch: " + host::in_quotes(words[0]) +
                  " cannot be executed; it needs bash, and cohort installed with all of its files");
}

}  // namespace cohort::cli
