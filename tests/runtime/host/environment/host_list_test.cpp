#include "environment/node_list.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "variables.hpp"

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> expand(const std::string& list) {
  return expand_node_list(list, "LIST=" + list);
}

std::string refusal_of(const std::string& list) {
  try {
    expand(list);
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(HostList, KeepsNamesAndLeadingZeros) {
  EXPECT_THAT(expand("login"), ElementsAre("login"));
  EXPECT_THAT(expand("n1,gpu-2.example.org,n1"), ElementsAre("n1", "gpu-2.example.org", "n1"));
  EXPECT_THAT(expand("n[01-03,7]"), ElementsAre("n01", "n02", "n03", "n7"));
  EXPECT_THAT(expand("n[8-11]-ib,m"), ElementsAre("n8-ib", "n9-ib", "n10-ib", "n11-ib", "m"));
  EXPECT_THAT(expand("[098-101]"), ElementsAre("098", "099", "100", "101"));
}

TEST(HostList, BracketsCountLikeDigits) {
  EXPECT_THAT(expand("a[1-2]b[3-4]"), ElementsAre("a1b3", "a1b4", "a2b3", "a2b4"));
  EXPECT_THAT(expand("r[1,3][0-1]x"), ElementsAre("r10x", "r11x", "r30x", "r31x"));
}

TEST(HostList, WhatDoesNotParseIsNamed) {
  for (const char* list : {"", ",", "n1,", "n[", "n[]", "n[1", "n[1-", "n[-1]", "n[1-2", "n1]", "n[1,]", "n[a-b]",
                           "n[1]]", "n[[1]]", "n[3-1]", "n[1-2-3]", "n[ 1]"}) {
    EXPECT_THAT(refusal_of(list), AllOf(HasSubstr("LIST=" + std::string(list)), HasSubstr("set MASTER_ADDR"))) << list;
  }
}

TEST(HostList, SizesAreBounded) {
  EXPECT_EQ(expand("n[1-65536]").size(), 65'536u);
  EXPECT_EQ(expand("n[0-255][0-255]").back(), "n255255");
  for (const char* list : {"n[1-65537]", "n[1-65536],m", "n[0-255][0-256]", "n[1-9223372036854775807]",
                           "n[9223372036854775806-9223372036854775807,0-65535]"}) {
    EXPECT_THAT(refusal_of(list), HasSubstr("more than 65536 hosts")) << list;
  }
  EXPECT_THAT(refusal_of("n[99999999999999999999]"), HasSubstr("number too large"));
  EXPECT_THAT(refusal_of("n[1-65536]" + std::string(300, 'x')), HasSubstr("255 bytes"));
  EXPECT_THAT(refusal_of("n[" + std::string(300, '0') + "]"), HasSubstr("255 bytes"));
}

class HostFile : public ::testing::Test {
 protected:
  HostFile() { std::filesystem::create_directory(folder_); }
  ~HostFile() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> hosts_of(const std::string& text) {
    std::ofstream(file_) << text;
    return read(file_);
  }

  std::vector<std::string> read(const std::string& path) {
    Topology topology;
    const Variables variables{{"FILE", path}};
    return read_host_file(VariableReader(variables, topology), "FILE");
  }

  std::string refusal_of(const std::string& path) {
    try {
      read(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  const std::string folder_ = ::testing::TempDir() + "host-file-" + std::to_string(::getpid());
  const std::string file_ = folder_ + "/hosts";
};

TEST_F(HostFile, HasAHostOnEachLine) {
  EXPECT_THAT(hosts_of("n1\nn1 slots=2\n\n  n2\t\nn1"), ElementsAre("n1", "n1", "n2", "n1"));
}

TEST_F(HostFile, WhatIsNoSuchFileIsRefused) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  for (const std::string& path : {file_, folder_, std::string("/dev/zero")}) {
    EXPECT_THAT(refusal_of(path), AllOf(HasSubstr("FILE=" + path.substr(0, 100)), HasSubstr("regular file"))) << path;
  }
  EXPECT_THAT(refusal_of(folder_ + "/none"), HasSubstr("No such file"));
  std::filesystem::remove(file_);
  EXPECT_THROW(hosts_of("\n \n"), UserError);
  EXPECT_THROW(hosts_of(std::string("a\0b", 3)), UserError);
  EXPECT_THROW(hosts_of(std::string(300, 'n')), UserError);
  std::filesystem::resize_file(file_, (4 << 20) + 1);
  EXPECT_THAT(refusal_of(file_), HasSubstr("4 MiB"));
}

}  // namespace
}  // namespace cohort::host
