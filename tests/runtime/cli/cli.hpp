// The `cohort` command as a user runs it, in a folder of its own.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cohort::cli {

struct Outcome {
  int code = -1;
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  Cli() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-cli-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Cli() override { std::filesystem::remove_all(folder_); }

  Outcome cohort(std::vector<std::string> arguments, const std::map<std::string, std::string>& variables = {}) const {
    const pid_t child = ::fork();
    if (child == 0) {
      redirect(STDOUT_FILENO, "out");
      redirect(STDERR_FILENO, "err");
      if (::chdir(folder_.c_str()) != 0) ::_exit(126);
      for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
      std::vector<char*> argv;
      arguments.insert(arguments.begin(), COHORT_COMMAND);
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(126);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read("out"), read("err")};
  }

  void redirect(int descriptor, const char* name) const {
    const int file = ::open((folder_ / name).c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ::dup2(file, descriptor);
  }

  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
};

}  // namespace cohort::cli
