// The process that runs the ranks of one node for a launcher that may be elsewhere.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/machine.hpp>
#include <cohort/launch/caught_signals.hpp>
#include <cohort/launch/descriptor.hpp>
#include <cohort/launch/job.hpp>
#include <cohort/nodes/nodes.hpp>

#include "message.hpp"
#include "node_job.hpp"
#include "output_pump.hpp"

namespace cohort::nodes {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kOrphansLeave = 2s;  // between SIGTERM and SIGKILL
constexpr std::chrono::milliseconds kLastResort = 5s;

/// Both directions of the channel to the launcher.
class LauncherChannel {
 public:
  LauncherChannel() : stop_(::eventfd(0, EFD_CLOEXEC)) {}

  void greet() { launch::write_all(STDOUT_FILENO, kGreeting); }
  /// May be called from any thread. What cannot be sent is lost: receive will tell.
  void send(const Message& message) {
    const std::lock_guard lock(sending_);
    launch::write_all(STDOUT_FILENO, encode(message));
  }
  /// Before the job says it, a minute.
  void set_longest_silence(std::chrono::milliseconds time) { longest_silence_ = time; }
  /// The next message; nothing where the launcher is gone or silent, or after stop().
  std::optional<Message> receive();
  /// Ends the wait of another thread in receive or pause.
  void stop() { launch::write_all(stop_.number(), std::string_view("\1\0\0\0\0\0\0\0", 8)); }
  bool is_stopped() { return pause(0ms); }
  /// Waits; true once stopped.
  bool pause(std::chrono::milliseconds time) const {
    pollfd wait{stop_.number(), POLLIN, 0};
    return ::poll(&wait, 1, static_cast<int>(time.count())) > 0;
  }

 private:
  std::mutex sending_;
  MessageReader reader_{true};
  std::chrono::milliseconds longest_silence_ = 60s;
  launch::Descriptor stop_;
};

std::optional<Message> LauncherChannel::receive() {
  while (true) {
    if (auto message = reader_.next()) return message;
    std::array<pollfd, 2> waits{{{STDIN_FILENO, POLLIN, 0}, {stop_.number(), POLLIN, 0}}};
    const int ready = ::poll(waits.data(), waits.size(), static_cast<int>(longest_silence_.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || waits[1].revents != 0) return std::nullopt;
    std::array<char, 65536> bytes;
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got <= 0) return std::nullopt;
    reader_.add({bytes.data(), static_cast<std::size_t>(got)});
  }
}

/// The next message of this kind; nothing where the launcher is gone.
std::optional<Message> await(LauncherChannel& launcher, MessageKind kind) {
  auto message = launcher.receive();
  while (message && message->kind != kind) message = launcher.receive();
  return message;
}

void enter_folder(const std::string& folder) {
  std::error_code failure;
  std::filesystem::current_path(folder, failure);
  if (failure) {
    throw UserError("folder " + host::in_quotes(folder) + " cannot be entered (" + failure.message() +
                    "); ranks run in the same folder on every host, so start where all have it");
  }
}

bool is_for_ranks(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1;
}

/// Passes the launcher's signals on to the thread that supervises the ranks, and ends the ranks when it is gone.
class Watch {
 public:
  explicit Watch(LauncherChannel& launcher)
      : launcher_(launcher), supervisor_(::pthread_self()), thread_([this] { run(); }) {}
  ~Watch() {
    launcher_.stop();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void run() {
    try {
      while (const auto message = launcher_.receive()) {
        const bool is_signal = message->kind == MessageKind::kSignal && is_for_ranks(message->number);
        if (is_signal) pass_on(message->number);
      }
    } catch (const Error&) {  // not understood: as good as gone
    }
    if (launcher_.is_stopped()) return;
    pass_on(SIGTERM);
    if (launcher_.pause(kOrphansLeave)) return;
    pass_on(SIGTERM);  // told twice, it is not patient any more
    // What hangs now is this process, with output that nobody takes; ranks die with it.
    if (!launcher_.pause(kLastResort)) ::_exit(static_cast<int>(ExitCode::kPeerFailed));
  }

  // The launcher knows which signals are one wish; each that it sends is one.
  void pass_on(int number) {
    if (std::exchange(has_passed_on_, true)) return launch::send_at_once(supervisor_, number);
    ::pthread_kill(supervisor_, number);
  }

  LauncherChannel& launcher_;
  pthread_t supervisor_;
  bool has_passed_on_ = false;
  std::thread thread_;
};

int run_ranks(LauncherChannel& launcher, NodeJob& job) {
  const int first_rank = job.launch.node_rank * job.launch.processes_per_node;
  OutputPump pump(first_rank, job.launch.processes_per_node, [&](MessageKind stream, int rank, std::string_view bytes) {
    launcher.send({stream, rank, std::string(bytes)});
  });
  host::LogSettings settings;
  if (job.logs_as_json) settings.format = host::LogFormat::kJson;
  host::Log log(settings);
  const launch::RankCommand command{launch::find_program(job.launch.command.at(0)), job.launch.command};
  const auto start_rank = [&](launch::RankStart start, const launch::CaughtSignals&) {
    start.streams = pump.streams_of(start.rank);
    launch::RankProcess process = execute_rank(start, command);
    pump.release(start.rank);
    return process;
  };
  launch::JobEvents events;
  events.on_listening = [&](int port) { launcher.send({MessageKind::kListening, port}); };
  events.on_failure = [&](int exit_code, const std::string& what) {
    launcher.send({MessageKind::kFailed, exit_code, what});
  };
  const Watch watch(launcher);
  launch::LaunchJob launch = job.launch;
  launch.ends_orphans = true;
  const int code = launch::run_job(launch, log, start_rank, events).exit_code;
  pump.finish();
  launcher.send({MessageKind::kEnded, code});
  return code;
}

int serve(LauncherChannel& launcher) {
  launcher.greet();
  const auto told = await(launcher, MessageKind::kJob);
  if (!told) return static_cast<int>(ExitCode::kPeerFailed);
  NodeJob job = node_job_from(told->text);
  launcher.set_longest_silence(job.longest_silence);
  enter_folder(job.folder);
  host::check_workers(job.launch.processes_per_node, "the job", "ranks");
  if (job.launch.command.empty()) throw UserError("no program is given");
  launch::find_program(job.launch.command[0]);
  launcher.send({MessageKind::kReady});
  const auto start = await(launcher, MessageKind::kStart);
  if (!start) return static_cast<int>(ExitCode::kPeerFailed);
  job.launch.master_port = start->number;
  return run_ranks(launcher, job);
}

}  // namespace

int serve_node() {
  // Signals reach the ranks through the supervision alone, and a launcher that is gone is an error of write.
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::sigaddset(&blocked, number);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  LauncherChannel launcher;
  try {
    return serve(launcher);
  } catch (const Error& error) {
    launcher.send({MessageKind::kRefused, static_cast<int>(error.code()), error.what()});
    return static_cast<int>(error.code());
  }
}

}  // namespace cohort::nodes
