#include <cohort/host/process_state.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cohort::host {
namespace {

TEST(ProcessStat, TellsAStoppedProcessFromOneThatIsGone) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  const auto started = read_process_stat(child);
  ASSERT_TRUE(started);
  EXPECT_GT(started->start_ticks, 0u);
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_EQ(read_process_stat(child)->state, 'T');
  EXPECT_EQ(read_process_stat(child)->start_ticks, started->start_ticks);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(read_process_stat(child));
}

TEST(ProcessStat, OfAnEndedProcessThatNobodyHasAwaitedIsThere) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t end{};
  ::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT);
  EXPECT_EQ(read_process_stat(child)->state, 'Z');
  ::waitpid(child, nullptr, 0);
}

TEST(ProcessSpace, IsTheSameForEveryProcessHere) {
  EXPECT_FALSE(process_space().empty());
  EXPECT_EQ(process_space(), process_space());
}

TEST(ProcessState, IsUnknownElsewhereAndGoneAfterReuse) {
  const ProcessId own = own_process();
  EXPECT_EQ(state_of(own, own.space), ProcessState::kRunning);
  EXPECT_EQ(state_of({own.pid, own.started + 1, own.space}, own.space), ProcessState::kGone);
  EXPECT_EQ(state_of({own.pid, own.started, "elsewhere"}, own.space), ProcessState::kUnknown);
  EXPECT_EQ(state_of({}, own.space), ProcessState::kUnknown);
}

}  // namespace
}  // namespace cohort::host
