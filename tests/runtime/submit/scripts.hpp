// Runs job files with stand-ins for the scheduler's programs, in a folder of their own.
#pragma once

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cohort/submit.hpp>

#include "temporary_folder.hpp"

namespace cohort {

class Scripts : public ::testing::Test {
 protected:
  Scripts() : path_before_(std::getenv("PATH")) {
    std::filesystem::create_directories(folder_ / "bin");
    std::filesystem::current_path(folder_);
    ::setenv("PATH", ((folder_ / "bin").string() + ":" + path_before_).c_str(), 1);
  }
  ~Scripts() override {
    ::setenv("PATH", path_before_.c_str(), 1);
    std::filesystem::current_path("/");
  }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    ::chmod((folder_ / name).c_str(), 0755);
  }
  /// A program of the system that does what these lines of bash say.
  void stand_in(const std::string& name, const std::string& lines) const {
    write("bin/" + name, "#!/bin/bash\n" + lines + "\n");
  }
  std::string read(const std::filesystem::path& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  void write_all(const std::vector<JobFile>& files) const {
    for (const JobFile& file : files) write(file.path, file.text);
  }
  /// The exit code of a job file that bash runs with these variables; what it says goes to `out`.
  int run(const std::vector<JobFile>& files, const std::string& variables) const {
    write_all(files);
    const std::string command = variables + " bash '" + files.front().path.string() + "' >out 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  testing::TemporaryFolder owner_;
  std::filesystem::path folder_ = owner_.path();
  std::string path_before_;
};

}  // namespace cohort
