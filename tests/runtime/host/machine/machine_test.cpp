#include <cohort/host/machine.hpp>

#include <gtest/gtest.h>

#include <sched.h>

#include <thread>

#include <cohort/host/error.hpp>

#include "temporary_folder.hpp"

namespace cohort::host {
namespace {

class QuotaCores : public ::testing::Test {
 protected:
  void group(const std::string& name, const std::string& file, const std::string& content) {
    std::filesystem::create_directories(folder_.path() / name);
    folder_.write(name + "/" + file, content);
  }
  int of(const std::string& membership) { return quota_cores(folder_.path(), folder_.write("membership", membership)); }

 private:
  cohort::testing::TemporaryFolder folder_;
};

TEST_F(QuotaCores, RoundsTheQuotaOfAGroupOfVersion2Up) {
  group("job", "cpu.max", "150000 100000\n");
  EXPECT_EQ(of("0::/job\n"), 2);
}

TEST_F(QuotaCores, AreTheLeastOfTheGroupAndThoseAboveIt) {
  group(".", "cpu.max", "800000 100000\n");
  group("slice", "cpu.max", "300000 100000\n");
  group("slice/job", "cpu.max", "400000 100000\n");
  EXPECT_EQ(of("0::/slice/job\n"), 3);
}

TEST_F(QuotaCores, ReadBothFilesOfVersion1) {
  group("cpu,cpuacct/job", "cpu.cfs_quota_us", "400000\n");
  group("cpu,cpuacct/job", "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(of("5:cpuset:/other\n4:cpu,cpuacct:/job\n0::/\n"), 4);
}

TEST_F(QuotaCores, OfAContainerAreThoseOfItsOwnRoot) {
  group("cpu,cpuacct", "cpu.cfs_quota_us", "200000\n");
  group("cpu,cpuacct", "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(of("4:cpu,cpuacct:/docker/of/the/host\n"), 2);
}

TEST_F(QuotaCores, AreZeroWithoutALimit) {
  group("job", "cpu.max", "max 100000\n");
  group("cpu/job", "cpu.cfs_quota_us", "-1\n");
  group("cpu/job", "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(of("1:cpu:/job\n0::/job\n"), 0);
  EXPECT_EQ(of(""), 0);
  EXPECT_EQ(of("nonsense\n\n::\n:\n"), 0);
  EXPECT_EQ(quota_cores("/nowhere", "/nowhere"), 0);
}

TEST_F(QuotaCores, AreZeroWhereTheFilesHoldNonsense) {
  group("job", "cpu.max", "100000 0\n");
  EXPECT_EQ(of("0::/job\n"), 0);
  group("job", "cpu.max", "many\n");
  EXPECT_EQ(of("0::/job\n"), 0);
}

TEST(UsableCores, AreNoMoreThanTheAffinityAllows) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Workers, AreBoundedByTheUsableCores) {
  const int64_t most = int64_t{64} * usable_cores();
  EXPECT_NO_THROW(check_workers(most, "--devices", "devices"));
  try {
    check_workers(most + 1, "--devices", "devices");
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find("--devices asks for " + std::to_string(most + 1) + " devices on this machine"), 0u);
    EXPECT_NE(message.find("at most " + std::to_string(most)), std::string::npos);
  }
}

TEST(CoresNear, AreThoseThatLinuxListsForThePciDevice) {
  const cohort::testing::TemporaryFolder sys;
  std::filesystem::create_directories(sys.path() / "bus/pci/devices/0000:3b:00.0");
  sys.write("bus/pci/devices/0000:3b:00.0/local_cpulist", "0-31,64-95\n");
  EXPECT_EQ(cores_near("0000:3B:00.0", sys.path()), "0-31,64-95");
  EXPECT_EQ(cores_near("0000:3c:00.0", sys.path()), "");
  EXPECT_EQ(cores_near("", sys.path()), "");
  EXPECT_EQ(cores_near("../3b", sys.path()), "");
}

/// Returns the cores that the calling thread may use, in order.
std::vector<int> own_cores() {
  cpu_set_t cores;
  sched_getaffinity(0, sizeof cores, &cores);
  std::vector<int> list;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &cores)) list.push_back(core);
  }
  return list;
}

/// Returns the result of stay_on_cores and the cores left to the thread that called it, which ends then.
std::pair<int, std::vector<int>> after_staying_on(const std::string& list) {
  std::pair<int, std::vector<int>> result;
  std::thread([&] { result = {stay_on_cores(list), own_cores()}; }).join();
  return result;
}

TEST(StayOnCores, KeepsThoseOfTheListThatTheThreadHas) {
  const std::vector<int> cores = own_cores();
  if (cores.size() < 2) GTEST_SKIP() << "this machine has one core";
  const auto [kept, left] = after_staying_on(std::to_string(cores[1]) + ",1000-1002");
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(left, std::vector{cores[1]});
}

TEST(StayOnCores, ChangesNothingForAListOfOthersOfAllOrOfNone) {
  const std::vector<int> cores = own_cores();
  for (const char* const list : {"", "1000", "0-1023", "x", "1-", "1 2", "-1", "0,,1", "99999999999"}) {
    const auto [kept, left] = after_staying_on(list);
    EXPECT_EQ(kept, 0) << list;
    EXPECT_EQ(left, cores) << list;
  }
}

}  // namespace
}  // namespace cohort::host
