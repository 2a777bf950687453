// A rank for the tests of the launcher. Arguments are steps, done in order, each for all ranks or for one ("1:exit=3"):
//   write=FOLDER   writes this rank's variables and arguments to FOLDER/rank-N, complete when it appears
//   exit=CODE  signal=NUMBER  wait (for a signal)  ignore=NUMBER  linger=CODE (a SIGTERM or SIGINT ends it with CODE)
//   after=FILE     waits until FILE exists           once=FILE  ends with 1, and makes FILE, if it does not exist
//   of=N           ends with 0 if there are N ranks
//   accept         accepts a connection on COHORT_STORE_FD   connect  connects to MASTER_PORT here
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "unset" : value;
}

volatile std::sig_atomic_t linger_code = 0;
void leave(int) {
  ::_exit(static_cast<int>(linger_code));
}

/// Returns what the descriptor of the job's secret holds.
std::string secret() {
  char text[128] = {};
  const ssize_t length = ::pread(std::atoi(variable("COHORT_JOB_SECRET_FD").c_str()), text, sizeof text, 0);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "none";
}

void write_variables(const std::string& folder, int argc, char** argv) {
  const std::string file = folder + "/rank-" + variable("RANK");
  {
    std::ofstream out(file + ".part");
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR",
                             "MASTER_PORT", "COHORT_RUN_ID", "COHORT_STORE_FD", "COHORT_NODE_NAME", "COHORT_JOB_SECRET",
                             "COHORT_MAX_RESTARTS", "ADDED"}) {
      out << name << "=" << variable(name) << "\n";
    }
    out << "PID=" << ::getpid() << "\n";
    out << "SECRET=" << secret() << "\n";
    for (int i = 1; i < argc; ++i) out << "argument=" << argv[i] << "\n";
  }
  std::filesystem::rename(file + ".part", file);
}

int connect_to_master() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(std::atoi(variable("MASTER_PORT").c_str())));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  return ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : 9;
}

/// The exit code, or -1 to go on.
int perform(const std::string& step, int argc, char** argv) {
  const std::size_t equals = step.find('=');
  const std::string name = step.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : step.substr(equals + 1);
  if (name == "write") write_variables(value, argc, argv);
  if (name == "exit") return std::atoi(value.c_str());
  if (name == "signal") ::raise(std::atoi(value.c_str()));
  if (name == "ignore") ::signal(std::atoi(value.c_str()), SIG_IGN);
  if (name == "linger") {
    linger_code = std::atoi(value.c_str());
    ::signal(SIGTERM, leave);
    ::signal(SIGINT, leave);
  }
  if (name == "wait") {
    while (true) ::pause();
  }
  if (name == "after") {
    while (!std::filesystem::exists(value)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (name == "once" && !std::filesystem::exists(value)) return std::ofstream(value) ? 1 : 9;
  if (name == "of" && value == variable("WORLD_SIZE")) return 0;
  if (name == "accept") return ::accept(std::atoi(variable("COHORT_STORE_FD").c_str()), nullptr, nullptr) < 0 ? 8 : -1;
  if (name == "connect") {
    const int failure = connect_to_master();
    return failure != 0 ? failure : -1;
  }
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string rank = variable("RANK");
  for (int i = 1; i < argc; ++i) {
    std::string step = argv[i];
    const std::size_t colon = step.find(':');
    if (colon != std::string::npos && colon < 4) {
      if (step.substr(0, colon) != rank) continue;
      step = step.substr(colon + 1);
    }
    const int code = perform(step, argc, argv);
    if (code >= 0) return code;
  }
  return 0;
}
