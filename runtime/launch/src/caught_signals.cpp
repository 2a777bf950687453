#include <cohort/launch/caught_signals.hpp>

#include <sys/signalfd.h>
#include <unistd.h>

#include <ctime>

namespace cohort::launch {

CaughtSignals::CaughtSignals() {
  ::sigemptyset(&caught_);
  ::sigaddset(&caught_, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    const bool ignored = (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
    if (!ignored) ::sigaddset(&caught_, number);  // nohup ignores SIGHUP: then it is no reason to stop
  }
  struct sigaction user_action {};
  ::sigaction(SIGUSR1, nullptr, &user_action);
  const bool has_handler = (user_action.sa_flags & SA_SIGINFO) != 0 || user_action.sa_handler != SIG_DFL;
  if (!has_handler) ::sigaddset(&caught_, SIGUSR1);
  // Where SIGCHLD is ignored the kernel throws exit codes away.
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &default_action, &child_action_before_);
  ::pthread_sigmask(SIG_BLOCK, &caught_, &before_);
}

CaughtSignals::~CaughtSignals() {
  while (wait(std::chrono::milliseconds(0))) {
  }
  give_back();
}

void CaughtSignals::give_back() const {
  ::sigaction(SIGCHLD, &child_action_before_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int CaughtSignals::open_descriptor() const {
  sigset_t wishes = caught_;
  ::sigdelset(&wishes, SIGCHLD);
  return ::signalfd(-1, &wishes, SFD_CLOEXEC);
}

std::optional<CaughtSignal> CaughtSignals::wait(std::chrono::milliseconds timeout) const {
  timespec limit{};
  limit.tv_sec = timeout.count() / 1000;
  limit.tv_nsec = (timeout.count() % 1000) * 1'000'000;
  siginfo_t info{};
  const int number = ::sigtimedwait(&caught_, &info, &limit);
  if (number < 0) return std::nullopt;
  // When a terminal is lost the kernel sends SIGHUP to the session leader only. That may be this process, so its ranks
  // have not got the signal, unlike a SIGINT of the keyboard.
  return CaughtSignal{number, info.si_code == SI_KERNEL && number != SIGHUP,
                      info.si_code == SI_QUEUE && info.si_pid == ::getpid()};
}

void send_at_once(pthread_t thread, int number) {
  ::pthread_sigqueue(thread, number, sigval{});
}

StopWish::Is StopWish::take(const CaughtSignal& signal) {
  constexpr std::chrono::milliseconds kOneWish{1000};
  const auto now = std::chrono::steady_clock::now();
  if (number_ != 0) return signal.at_once || now - at_ > kOneWish ? Is::kAnother : Is::kSame;
  number_ = signal.number;
  at_ = now;
  return Is::kFirst;
}

}  // namespace cohort::launch
