#include <cohort/host/machine.hpp>

#include <gtest/gtest.h>

#include <sched.h>

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

}  // namespace
}  // namespace cohort::host
