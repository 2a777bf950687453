#include "leftovers.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "ranks.hpp"
#include "temporary_folder.hpp"

namespace cohort::test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr const char* kMayNot = "needs root: mounts a /dev/shm of the test's own";

void write_file(const char* path, const std::string& text) {
  std::ofstream(path) << text;
}

// An empty /dev/shm and System V memory that no other program sees. An ordinary user needs a user namespace for that.
bool isolate() {
  const std::string user = std::to_string(::getuid()), group = std::to_string(::getgid());
  if (::unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC) != 0) return false;
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", user + " " + user + " 1");
    write_file("/proc/self/gid_map", group + " " + group + " 1");
  }
  // The mount below must not be seen outside; in a changed root only /dev/shm itself is a mount.
  const bool is_private = ::mount("none", "/dev/shm", nullptr, MS_PRIVATE, nullptr) == 0 ||
                          ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return is_private && ::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0;
}

Names lines_of(const fs::path& file) {
  std::ifstream in(file);
  Names lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "5 -> /memfd:name (deleted)" for each open descriptor.
Names descriptors() {
  Names names;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code is_gone;  // the one with which the folder is read
    const fs::path target = fs::read_symlink(entry.path(), is_gone);
    if (!is_gone && target != "/proc/" + std::to_string(::getpid()) + "/fd") {
      names.push_back("descriptor " + entry.path().filename().string() + " -> " + target.string());
    }
  }
  return names;
}

// Memory that has a name, and a file for it or none.
Names mapped_memory() {
  Names names;
  for (const std::string& line : lines_of("/proc/self/maps")) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const std::string name = line.substr(path);
    if (name.starts_with("/memfd:") || name.starts_with("/dev/shm/") || name.starts_with("/SYSV")) {
      names.push_back("mapped " + name);
    }
  }
  return names;
}

Names files_below(const fs::path& folder) {
  Names names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) names.push_back(entry.path().string());
  return names;
}

// Segments, semaphores and queues; the first line of each is a header.
Names system_v_objects() {
  Names names;
  for (const char* const kind : {"shm", "sem", "msg"}) {
    const Names lines = lines_of(fs::path("/proc/sysvipc") / kind);
    for (std::size_t i = 1; i < lines.size(); ++i) names.push_back(std::string("System V ") + kind + " " + lines[i]);
  }
  return names;
}

Names children() {
  Names names;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string pid, name, state;
    pid_t parent = 0;
    if (stat >> pid >> name >> state >> parent && parent == ::getpid()) names.push_back("process " + pid + " " + name);
  }
  return names;
}

// Waits for all children; kills those that do not end, and names them.
Names children_that_stay(std::chrono::milliseconds patience) {
  Names left;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0) return left;
    if (std::chrono::steady_clock::now() >= until) {
      const Names alive = children();
      left.insert(left.end(), alive.begin(), alive.end());
      for (const std::string& one : alive) ::kill(std::stoi(one.substr(one.find(' '))), SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Names added(Names before, Names after) {
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  Names added;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(added));
  return added;
}

Names things_left_by(const std::function<void()>& body, std::chrono::milliseconds patience, const fs::path& temporary) {
  // A process that outlives its parent becomes a child of this one.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::setenv("TMPDIR", temporary.c_str(), 1);
  const Names open = descriptors(), mapped = mapped_memory();
  body();
  Names things = children_that_stay(patience);
  for (const Names& more : {files_below("/dev/shm"), files_below(temporary), system_v_objects(),
                            added(open, descriptors()), added(mapped, mapped_memory())}) {
    things.insert(things.end(), more.begin(), more.end());
  }
  return things;
}

}  // namespace

Leftovers leftovers_of(const std::function<void()>& body, std::chrono::milliseconds patience) {
  const testing::TemporaryFolder folder;
  const fs::path temporary = folder.path() / "tmp";
  fs::create_directory(temporary);
  const auto ends = run_as_processes(1, [&](int) {
    if (!isolate()) throw std::runtime_error(kMayNot);
    std::ostringstream text;
    for (const std::string& thing : things_left_by(body, patience, temporary)) text << thing << '\n';
    folder.write("things", text.str());
  });
  if (ends[0].error == kMayNot) return {kMayNot, {}};
  if (!ends[0].is_ok) throw std::runtime_error("the body ended: " + ends[0].error);
  return {"", lines_of(folder.path() / "things")};
}

}  // namespace cohort::test
