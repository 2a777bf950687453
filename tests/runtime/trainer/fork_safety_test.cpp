#include "spawn/fork_safety.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>

#include <gmock/gmock.h>

namespace cohort {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// A stand-in for a library that a plugin has loaded for itself, with an int that says how far it is up.
int& state_of(const char* library) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << ::dlerror();
  return *static_cast<int*>(::dlsym(handle, "state"));
}

/// The exit code of a child that does this; 99 where it hangs.
template <class Work>
int code_of_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  for (int i = 0; i < 3000; ++i) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
    std::this_thread::sleep_for(10ms);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return 99;
}

int compute_with_two_threads() {
  at::set_num_threads(2);
  return at::ones({1 << 20}).mul_(2).sum().item<double>() == 2 << 20 ? 0 : 1;
}

TEST(ForkSafety, AForkComputesAfterOpenMpWasUsed) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(at::ones({1 << 20}).mul_(2).sum().item<double>(), 2 << 20);
    EXPECT_EQ(objection_to_fork(), "");
    EXPECT_EQ(code_of_child(compute_with_two_threads), 0);
  }
}

TEST(ForkSafety, AnotherThreadIsNamed) {
  std::promise<void> over;
  std::thread loader([&] { over.get_future().wait(); });
  ::pthread_setname_np(loader.native_handle(), "loader");
  EXPECT_THAT(objection_to_fork(), HasSubstr("other threads run in this process (loader)"));
  over.set_value();
  loader.join();
  EXPECT_EQ(objection_to_fork(), "");
}

TEST(ForkSafety, AThreadThatIsEndingIsWaitedFor) {
  std::thread brief([] { std::this_thread::sleep_for(50ms); });
  EXPECT_EQ(objection_to_fork(), "");
  brief.join();
}

TEST(ForkSafety, MpiObjectsFromInitToFinalize) {
  int& state = state_of(FAKE_MPI);
  EXPECT_EQ(objection_to_fork(), "");
  state = 1;  // initialised
  EXPECT_THAT(objection_to_fork(), HasSubstr("MPI is initialised in this process"));
  state = 2;  // finalised
  EXPECT_EQ(objection_to_fork(), "");
}

TEST(ForkSafety, CudaObjectsOnceItHasAContext) {
  int& state = state_of(FAKE_CUDA);
  EXPECT_EQ(objection_to_fork(), "");  // nobody has called cuInit
  state = 1;                           // the devices were counted
  EXPECT_EQ(objection_to_fork(), "");
  state = 2;  // device 1 has a primary context
  EXPECT_THAT(objection_to_fork(), HasSubstr("this process uses CUDA"));
  state = 3;  // this thread has a context
  EXPECT_THAT(objection_to_fork(), HasSubstr("this process uses CUDA"));
  state = 0;
}

}  // namespace
}  // namespace cohort
