#include "ssh.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "node_job.hpp"
#include "placement.hpp"

namespace cohort::nodes {
namespace {

constexpr int kSshFailed = 255, kCannotBeExecuted = 126, kNoSuchCommand = 127;

struct Explanation {
  std::string_view said, what, mend;
};
// What OpenSSH's client says; %p stands for the port.
constexpr Explanation kExplanations[] = {
    {"Could not resolve hostname", "has no address", "correct its name, or add it to /etc/hosts or ~/.ssh/config"},
    {"HOST IDENTIFICATION HAS CHANGED", "has another key than the one known here",
     "if that is right, remove the old one with ssh-keygen -R"},
    {"Host key verification failed", "is not known to ssh here",
     "connect once by hand to accept its key, or add that to ~/.ssh/known_hosts"},
    {"Permission denied", "refuses this user's key",
     "add the public key to ~/.ssh/authorized_keys there, or name another with --ssh-identity-file"},
    {"Connection refused", "has no ssh server that answers%p", "start sshd there, or give its port with --ssh-port"},
    {"Connection timed out", "does not answer%p", "check that it is up and that no firewall is in between"},
    {"No route to host", "cannot be reached from here", "check its address and that it is up"},
    {"Network is unreachable", "cannot be reached from here", "check its address and the network"},
};

bool stands_for_all(std::string_view said, const Explanation& one) {
  return said.find(one.said) != std::string_view::npos;
}

std::string hint(const std::string& host) {
  return "; try: ssh " + host + " true";
}

}  // namespace

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text += "'";
}

std::vector<std::string> ssh_command(const NodesJob& job, const std::string& host) {
  using std::chrono::duration_cast;
  using std::chrono::seconds;
  // Its own deadline comes first, because it knows more.
  const auto connect_s = std::max<int64_t>(1, duration_cast<seconds>(job.start_timeout).count() - 2);
  const auto alive_s =
      std::max<int64_t>(1, duration_cast<seconds>(job.longest_silence).count() / kHeartbeatsInASilence);
  // ssh gives a host up one interval after the last of its questions, so before the host gives up the launcher.
  constexpr int kQuestions = kHeartbeatsInASilence - 2;
  std::vector<std::string> command{job.ssh, "-T", "-x", "-a"};
  for (const std::string& option :
       {std::string("BatchMode=yes"), "ConnectTimeout=" + std::to_string(connect_s),
        "ServerAliveInterval=" + std::to_string(alive_s), "ServerAliveCountMax=" + std::to_string(kQuestions),
        std::string("ControlPath=none"), std::string("ClearAllForwardings=yes"), std::string("RemoteCommand=none"),
        std::string("LogLevel=INFO")}) {
    command.insert(command.end(), {"-o", option});
  }
  if (job.ssh_port != 0) command.insert(command.end(), {"-p", std::to_string(job.ssh_port)});
  if (!job.ssh_identity.empty()) command.insert(command.end(), {"-i", job.ssh_identity});
  const std::size_t at = host.rfind('@');
  const std::string user = at == std::string::npos ? "" : host.substr(0, at + 1);
  command.insert(command.end(), {"--", user + address_of(host), "exec"});
  for (const std::string& word : job.node_command) command.back() += " " + quoted(word);
  return command;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

std::string why_unreached(const NodesJob& job, const std::string& host, int exit_code, const std::string& said) {
  const std::string line = last_line(said);
  const std::string reason = line.empty() ? "" : " (" + line + ")";
  if (exit_code == kSshFailed) {
    for (const Explanation& one : kExplanations) {
      if (!stands_for_all(said, one)) continue;
      std::string what(one.what);
      if (const std::size_t port = what.find("%p"); port != std::string::npos) {
        what.replace(port, 2, job.ssh_port == 0 ? "" : " on port " + std::to_string(job.ssh_port));
      }
      return "host " + host + " " + what + reason + "; " + std::string(one.mend);
    }
    return "ssh to host " + host + " failed" + reason + hint(host);
  }
  if (exit_code == kNoSuchCommand || exit_code == kCannotBeExecuted) {
    return "host " + host + " cannot execute " + job.node_command[0] + reason +
           "; install cohort under the same path on every host";
  }
  return "the login shell of host " + host + " or another cohort there ended with exit code " +
         std::to_string(exit_code) + reason + "; install the same cohort on every host";
}

}  // namespace cohort::nodes
