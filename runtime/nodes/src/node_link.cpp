#include "node_link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include <cohort/host/options.hpp>
#include <cohort/launch/launch.hpp>

namespace cohort::nodes {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostSaid = 4096;
constexpr timeval kLongestSend{10, 0};
constexpr auto kLongestEnd = 1s;

/// Adds what can be read now; false at the end.
bool read_into(std::string& text, const launch::Descriptor& from) {
  std::array<char, 65536> bytes;
  const ssize_t got = ::read(from.number(), bytes.data(), bytes.size());
  if (got < 0 && errno == EINTR) return true;
  if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
  return got > 0;
}

}  // namespace

NodeLink::NodeLink(std::string host, int first_rank, const std::vector<std::string>& command) : host_(std::move(host)) {
  launch::Channel input = launch::socket_to_there(), output = launch::pipe_to_here(), errors = launch::pipe_to_here();
  ::setsockopt(input.here.number(), SOL_SOCKET, SO_SNDTIMEO, &kLongestSend, sizeof kLongestSend);
  launch::RankStart start{host::process_environment(), first_rank, host_, {}};
  start.streams = launch::StandardStreams{input.there.number(), output.there.number(), errors.there.number()};
  start.has_own_session = true;  // or the terminal's Ctrl-C would end ssh before the ranks hear of it
  process_ = launch::execute_rank(start, {launch::find_program(command.at(0)), command});
  input_ = std::move(input.here);
  output_ = std::move(output.here);
  errors_ = std::move(errors.here);
}

void NodeLink::send(const Message& message) {
  const std::lock_guard lock(sending_);
  const std::string bytes = encode(message);
  for (std::string_view rest = bytes; input_.is_open() && !rest.empty();) {
    const ssize_t sent = ::send(input_.number(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return input_.close();  // half a message: nothing can follow
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool NodeLink::read_output() {
  std::string bytes;
  const bool goes_on = read_into(bytes, output_);
  reader_.add(bytes);
  if (!goes_on) output_.close();
  return goes_on;
}

void NodeLink::read_errors() {
  if (!read_into(said_, errors_)) errors_.close();
  if (said_.size() > kMostSaid) said_.erase(0, said_.size() - kMostSaid);
}

int NodeLink::exit_code() {
  const auto deadline = std::chrono::steady_clock::now() + kLongestEnd;
  while (!launch::reap(process_) && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(2ms);
  pollfd wait{errors_.number(), POLLIN, 0};
  while (errors_.is_open() && ::poll(&wait, 1, 0) > 0) read_errors();
  return process_.end ? process_.end->exit_code : 0;
}

void NodeLink::close() {
  {
    const std::lock_guard lock(sending_);
    input_.close();
  }
  if (process_.end) return;
  const auto deadline = std::chrono::steady_clock::now() + kLongestEnd;
  while (is_over && !launch::reap(process_) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(2ms);
  if (process_.end) return;
  ::kill(process_.pid, SIGKILL);
  ::waitpid(process_.pid, nullptr, 0);
  process_.end = launch::RankEnd{128 + SIGKILL, SIGKILL};
}

}  // namespace cohort::nodes
