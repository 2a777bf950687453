// A launcher in a process of its own, so that a test can send it signals.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <thread>

#include <gtest/gtest.h>

namespace cohort::launch {

/// Returns whether the condition becomes true within two minutes, which only a hang takes.
template <class Condition>
bool wait_for(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Calls `launch` in a child process, `then` with its pid as soon as `is_ready(rank)` holds for all ranks, and returns
/// the exit code of the child: 99 if `launch` throws, 128 + N if signal N ended it.
template <class Launch, class IsReady, class Then>
int launch_in_child(Launch launch, int ranks, IsReady is_ready, Then then) {
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    int code = 99;
    try {
      code = launch();
    } catch (const std::exception&) {
    }
    ::_exit(code);
  }
  for (int rank = 0; rank < ranks; ++rank) EXPECT_TRUE(wait_for([&] { return is_ready(rank); }));
  then(launcher);
  int status = 0;
  ::waitpid(launcher, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace cohort::launch
