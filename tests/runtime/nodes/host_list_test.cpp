#include <sys/stat.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>
#include <cohort/nodes/nodes.hpp>

#include "placement.hpp"
#include "temporary_folder.hpp"

namespace cohort::nodes {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::vector<NodeSlots> hosts(std::vector<NodeSlots> list) {
  return list;
}

TEST(HostList, NamesAndSlotsInTheirOrder) {
  EXPECT_EQ(parse_hosts("host1:4,host2:2"), hosts({{"host1", 4}, {"host2", 2}}));
  EXPECT_EQ(parse_hosts("host1"), hosts({{"host1", 1}}));
  EXPECT_EQ(parse_hosts(" a.b-c_d:1 , me@10.0.0.7:8 "), hosts({{"a.b-c_d", 1}, {"me@10.0.0.7", 8}}));
  EXPECT_EQ(parse_hosts("[::1]:2,[fe80::1%eth0]"), hosts({{"[::1]", 2}, {"[fe80::1%eth0]", 1}}));
}

TEST(HostList, AHostThatIsNamedTwiceHasTheSlotsOfBoth) {
  EXPECT_EQ(parse_hosts("a,b:2,a:3"), hosts({{"a", 4}, {"b", 2}}));
}

TEST(HostList, WhatIsNoHostIsRefusedInASentence) {
  for (const char* text : {"",          ",",
                           "a,",        ",a",
                           "a,,b",      ":4",
                           "a:",        "a:0",
                           "a:-1",      "a:+1",
                           "a: 2",      "a:2x",
                           "a:1.5",     "a:99999999999999",
                           "a:1:2",     "-oProxyCommand=x:1",
                           "-a",        "a b:1",
                           "a;reboot",  "$(reboot)",
                           "`reboot`",  "a'b",
                           "a\"b",      "a\\b",
                           "a\nb",      "a/b",
                           "a&b:1",     "[::1:2",
                           "::1",       "[]",
                           "[-x]",      "@a",
                           "me@",       "m e@a",
                           "-u@a",      "me@-a",
                           "a@b@c d",   "a|b",
                           "a>b",       "h\xc3\xa4st:1",
                           "a:1000001", "a:1000000,a:1"}) {
    EXPECT_THAT(refusal([&] { parse_hosts(text); }), HasSubstr("-H")) << text;
  }
  EXPECT_THROW(parse_hosts(std::string("a\0b", 3)), UserError);
  EXPECT_THROW(parse_hosts(std::string(300, 'a')), UserError);
}

// Whatever the text: hosts that a shell and ssh take as nothing else, or a UserError.
TEST(HostList, TextsByChanceGiveHostsOrAreRefused) {
  std::mt19937 random(7);
  constexpr std::string_view kCharacters = "ab1.-_:,@[]% \t\n'\"$;\\/=\xff";
  for (int i = 0; i < 100'000; ++i) {
    std::string text;
    for (auto length = random() % 12; length > 0; --length) text += kCharacters[random() % kCharacters.size()];
    try {
      for (const NodeSlots& host : parse_hosts(text)) {
        ASSERT_GT(host.slots, 0) << text;
        ASSERT_FALSE(address_of(host.name).empty()) << text;
        ASSERT_NE(address_of(host.name)[0], '-') << text;
        ASSERT_NE(host.name[0], '-') << text;
        ASSERT_EQ(host.name.find_first_of(" \t\n'\"$;\\/=\xff"), std::string::npos) << text;
      }
    } catch (const UserError&) {
    }
  }
}

TEST(Hostfile, HasAHostOnEachLine) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(
      read_hostfile(folder.write("hosts", "# two\nhost1 slots=4\n\n  host2\tslots=2 # small\nhost3  \r\nme@host1")),
      hosts({{"host1", 4}, {"host2", 2}, {"host3", 1}, {"me@host1", 1}}));
}

TEST(Hostfile, OfMpichAndOfAWindowsEditorIsRead) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(read_hostfile(folder.write("hosts", "\xef\xbb\xbfhost1:4\r\nhost2\n[::1]:2 # three\nme@host1:2")),
            hosts({{"host1", 4}, {"host2", 1}, {"[::1]", 2}, {"me@host1", 2}}));
}

TEST(Hostfile, WhatIsWrongIsToldInTheWordsOfAFile) {
  const testing::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    return refusal([&] { read_hostfile(folder.write("hosts", text)); });
  };
  EXPECT_THAT(refused("a slots=0"), HasSubstr("write a slots=4"));
  EXPECT_THAT(refused("a:0"), HasSubstr("write a slots=4"));
  EXPECT_THAT(refused("a:2 slots=2"), HasSubstr("'a:2' is no name or address of a host; write 'host1 slots=4'"));
  EXPECT_THAT(refused("a\xef\xbc\x9a"
                      "2"),
              HasSubstr("it has the character U+FF1A, which is not ':'"));
  EXPECT_THAT(refused("a slots\xef\xbc\x9d"
                      "2"),
              HasSubstr("is unknown; write 'host1 slots=4'"));
  EXPECT_THAT(refused("\xff\xfe\n"), HasSubstr("is no name or address"));
  EXPECT_THAT(refused("a\xe2\x80\x93"
                      "1"),
              HasSubstr("U+2013"));
  EXPECT_THAT(refused("fe80::1"), HasSubstr("an address with colons as [::1]"));
  EXPECT_THAT(refusal([] {
                parse_hosts(
                    "a\xef\xbc\x9a"
                    "2");
              }),
              AllOf(HasSubstr("which is not ':'"), HasSubstr("write host1:4,host2:4")));
}

TEST(Hostfile, WhatIsWrongIsNamedWithItsLine) {
  const testing::TemporaryFolder folder;
  for (const char* text :
       {"a\nb slots=0", "a\nb slots", "a\nb slots=2 max_slots=3", "a\nb max_slots=3", "a\n-b", "a\nb slots=x"}) {
    EXPECT_THAT(refusal([&] { read_hostfile(folder.write("hosts", text)); }),
                AllOf(HasSubstr("line 2"), HasSubstr("hosts")))
        << text;
  }
  EXPECT_THAT(refusal([&] { read_hostfile(folder.write("hosts", "# nothing\n")); }), HasSubstr("names no host"));
  EXPECT_THAT(refusal([&] { read_hostfile(folder.path() / "missing"); }), HasSubstr("cannot read"));
  EXPECT_THAT(refusal([&] { read_hostfile(folder.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal([&] { read_hostfile("/dev/zero"); }), HasSubstr("not a regular file"));
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { read_hostfile(pipe); }), HasSubstr("not a regular file"));
}

NodesJob job_on(const std::string& list, int processes = 0) {
  NodesJob job;
  job.hosts = parse_hosts(list);
  job.processes = processes;
  return job;
}

TEST(PlacementTest, HostsAreFilledInTheirOrder) {
  const Placement all = place(job_on("h1:2,h2:2"));
  EXPECT_THAT(all.hosts, ElementsAre("h1", "h2"));
  EXPECT_EQ(all.processes_per_node, 2);
  EXPECT_EQ(all.master_addr, "h1");
  const Placement first = place(job_on("h1:4,h2:4", 4));
  EXPECT_THAT(first.hosts, ElementsAre("h1"));
  EXPECT_EQ(first.master_addr, "") << "one host needs no address";
  EXPECT_EQ(place(job_on("h1:4", 3)).processes_per_node, 3);
}

TEST(PlacementTest, SlotsAndProcessesThatDoNotFitAreRefused) {
  EXPECT_THAT(refusal([] { place(job_on("h1:2,h2:2", 5)); }),
              AllOf(HasSubstr("-np 5"), HasSubstr("4 slots of h1:2,h2:2")));
  EXPECT_THAT(refusal([] { place(job_on("h1:4,h2:2")); }),
              AllOf(HasSubstr("h1 4 ranks and h2 2"), HasSubstr("equally many")));
  EXPECT_THAT(refusal([] { place(job_on("h1:4,h2:4", 6)); }), HasSubstr("h1 4 ranks and h2 2"));
  EXPECT_THROW(place(job_on("h1:2,h2:4")), UserError);
}

TEST(PlacementTest, ManySlotsDoNotOverflow) {
  std::string list = "h0:1000000";
  for (int i = 1; i < 3000; ++i) list += ",h" + std::to_string(i) + ":1000000";
  EXPECT_THAT(refusal([&] { place(job_on(list, std::numeric_limits<int>::max())); }), HasSubstr("equally many"));
}

TEST(PlacementTest, TheFirstHostIsTheAddressThatOthersCanUse) {
  EXPECT_EQ(place(job_on("me@[2001:db8::1]:1,h2")).master_addr, "2001:db8::1");
  EXPECT_EQ(place(job_on("127.0.0.2:1,127.0.0.3:1")).master_addr, "127.0.0.2") << "all are on this machine";
  EXPECT_EQ(place(job_on("localhost:1,127.0.0.3:1")).master_addr, "localhost");
  EXPECT_THAT(refusal([] { place(job_on("127.0.0.2:1,198.51.100.7:1")); }),
              AllOf(HasSubstr("127.0.0.2"), HasSubstr("198.51.100.7"), HasSubstr("--master-addr")));
  NodesJob given = job_on("127.0.0.2:1,198.51.100.7:1");
  given.master_addr = "10.1.2.3";
  EXPECT_EQ(place(given).master_addr, "10.1.2.3");
}

TEST(PlacementTest, ThisMachineIsKnownByItsUsualNames) {
  for (const char* name : {"localhost", "127.0.0.1", "[::1]"}) EXPECT_TRUE(is_this_machine(name)) << name;
  for (const char* name : {"127.0.0.2", "me@localhost", "another.example"}) EXPECT_FALSE(is_this_machine(name)) << name;
}

TEST(ForwardedVariables, AreCohortsOwnThreadsAndSearchPaths) {
  const auto forwarded = forwarded_variables({{"COHORT_TIMEOUT", "5"},
                                              {"COHORT_RUN_ID", "x"},
                                              {"COHORT_STORE_FD", "3"},
                                              {"COHORT_NODE_NAME", "n"},
                                              {"COHORT_JOB_SECRET_FILE", "/s"},
                                              {"COHORT_JOB_SECRET_FD", "4"},
                                              {"OMP_NUM_THREADS", "2"},
                                              {"LD_LIBRARY_PATH", "/l"},
                                              {"PATH", "/p"},
                                              {"SECRET", "s"},
                                              {"RANK", "7"}});
  std::vector<std::string> names;
  for (const auto& [name, value] : forwarded) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("COHORT_TIMEOUT", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PATH"));
}

}  // namespace
}  // namespace cohort::nodes
