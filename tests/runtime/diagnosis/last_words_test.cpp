#include <cohort/diagnosis/last_words.hpp>

#include <gmock/gmock.h>
#include <unistd.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

LastWords words_of_a_rank() {
  Operation operation;
  operation.communicator = "control";
  operation.number = 7;
  operation.name = operation.call = "barrier";
  operation.begun = 1.5;
  operation.peers = {1, 2};
  return {4, true, "no answer\n\xff", {operation}};
}

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  return text.replace(text.find(old), old.size(), by);
}

TEST(LastWords, AreReadOnOneLine) {
  const auto read = last_words_from(to_text(words_of_a_rank()));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->exit_code, 4);
  EXPECT_TRUE(read->in_operation);
  EXPECT_EQ(read->error, "no answer\\x0a\xef\xbf\xbd");
  ASSERT_EQ(read->operations.size(), 1u);
  EXPECT_EQ(read->operations[0].number, 7u);
  EXPECT_EQ(read->operations[0].begun, 1.5);
  EXPECT_EQ(read->operations[0].peers, (std::vector{1, 2}));
}

TEST(LastWords, OfStrangersAreNotRead) {
  const std::string text = to_text(words_of_a_rank());
  EXPECT_FALSE(last_words_from(""));
  EXPECT_FALSE(last_words_from("{}"));
  for (const char* const code : {"1.5", "true", "4294967300", "\"4\""}) {
    EXPECT_FALSE(last_words_from(replaced(text, "\"exit_code\":4", std::string("\"exit_code\":") + code))) << code;
  }
  EXPECT_FALSE(last_words_from(replaced(text, "[1,2]", "[1,4294967298]")));
}

TEST(Introduction, IsReadByAnotherRank) {
  const Peer peer = peer_from(3, introduction());
  EXPECT_EQ(peer.rank, 3);
  EXPECT_EQ(peer.pid, ::getpid());
  EXPECT_EQ(peer.space, host::process_space());
  EXPECT_THROW(peer_from(3, replaced(introduction(), "\"pid\":", "\"pid\":9999999999")), PeerFailed);
}

TEST(Verdict, IsReadOnOneLine) {
  const auto read = verdict_from(to_text(Verdict{"rank 1\nis gone", true}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->causes, "rank 1\\x0ais gone");
  EXPECT_TRUE(read->ranks_disagree);
  EXPECT_FALSE(verdict_from("[]"));
}

}  // namespace
}  // namespace cohort
