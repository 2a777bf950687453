// The search for leftovers finds each kind of thing that can be left.
#include "leftovers.hpp"

#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <gmock/gmock.h>

#include "ranks.hpp"

namespace {

using cohort::test::leftovers_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void make_named_memory() {
  ::close(::shm_open("/left", O_CREAT | O_RDWR, 0600));
}

void expect_found(const std::function<void()>& body, const std::string& what) {
  const auto left = leftovers_of(body, std::chrono::milliseconds(200));
  if (!left.why_not_looked_for.empty()) GTEST_SKIP() << left.why_not_looked_for;
  EXPECT_THAT(left.things, ElementsAre(HasSubstr(what)));
}

TEST(LeftoversDeathTest, AreNothingWhereAllIsTidy) {
  const auto left = leftovers_of([] {
    make_named_memory();
    ::shm_unlink("/left");
    if (::fork() == 0) ::_exit(0);
  });
  if (!left.why_not_looked_for.empty()) GTEST_SKIP() << left.why_not_looked_for;
  EXPECT_THAT(left.things, IsEmpty());
}

TEST(LeftoversDeathTest, AreNamedSharedMemory) {
  expect_found(make_named_memory, "/dev/shm/left");
}

TEST(LeftoversDeathTest, AreNamedSharedMemoryOfAKilledRank) {
  const auto killed = [] {
    cohort::test::run_as_processes(1, [](int) {
      make_named_memory();
      ::raise(SIGKILL);
    });
  };
  expect_found(killed, "/dev/shm/left");
}

TEST(LeftoversDeathTest, AreTemporaryFiles) {
  expect_found([] { std::ofstream(std::filesystem::temp_directory_path() / "left"); }, "/tmp/left");
}

TEST(LeftoversDeathTest, AreSystemVMemory) {
  expect_found([] { ::shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600); }, "System V shm");
}

TEST(LeftoversDeathTest, AreMemoryFilesThatAreStillOpen) {
  expect_found([] { (void)::memfd_create("left", 0); }, "-> /memfd:left");
}

TEST(LeftoversDeathTest, AreMemoryFilesThatAreStillMapped) {
  expect_found(
      [] {
        const int descriptor = ::memfd_create("left", 0);
        if (::ftruncate(descriptor, 4096) != 0) throw std::runtime_error("no memory");
        ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
        ::close(descriptor);
      },
      "mapped /memfd:left");
}

TEST(LeftoversDeathTest, AreProcessesOfAKilledRank) {
  const auto killed = [] {
    cohort::test::run_as_processes(1, [](int) {
      if (::fork() == 0) {
        while (true) ::pause();
      }
      ::raise(SIGKILL);
    });
  };
  expect_found(killed, "process ");
}

TEST(LeftoversDeathTest, AreNotLookedForWhereTheBodyFails) {
  const auto asked = leftovers_of([] {});
  if (!asked.why_not_looked_for.empty()) GTEST_SKIP() << asked.why_not_looked_for;
  EXPECT_THROW(leftovers_of([] { throw std::runtime_error("failed"); }), std::runtime_error);
}

}  // namespace
