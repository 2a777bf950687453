#include <cohort/diagnosis/deadlock.hpp>

#include <gmock/gmock.h>

#include <cohort/diagnosis/last_words.hpp>

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Operation in(const std::string& communicator, uint64_t number, const std::string& name) {
  Operation operation;
  operation.communicator = communicator;
  operation.number = number;
  operation.name = operation.call = name;
  operation.status = "running";
  return operation;
}

Waiting waiting(std::vector<Operation> operations, std::map<std::string, uint64_t> begun) {
  return {std::move(operations), std::move(begun)};
}

TEST(Deadlock, IsSeenWhereRanksWaitOnDifferentCommunicators) {
  const auto found =
      deadlock({waiting({in("control", 5, "barrier")}, {{"control", 5}, {"default/world", 17}}),
                waiting({in("default/world", 18, "all_reduce")}, {{"control", 4}, {"default/world", 18}}),
                waiting({in("default/world", 18, "all_reduce")}, {{"control", 4}, {"default/world", 18}})});
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, AllOf(HasSubstr("rank 0 called barrier, #5 of control"),
                            HasSubstr("ranks 1, 2 called all_reduce, #18 of default/world")));
}

TEST(Deadlock, IsNoneWhereAllHaveComeToTheOperation) {
  const Waiting one = waiting({in("control", 5, "barrier")}, {{"control", 5}});
  EXPECT_FALSE(deadlock({one, one}));
}

TEST(Deadlock, IsNoneWhereARankHasLeftTheOperationThatAnotherSaysItIsIn) {
  EXPECT_FALSE(deadlock({waiting({in("control", 5, "barrier")}, {{"control", 5}, {"user", 1}}),
                         waiting({in("user", 2, "all_reduce")}, {{"control", 5}, {"user", 2}})}));
}

TEST(Deadlock, IsNoneWhereOneOfTheOperationsMayStillEnd) {
  // Rank 1's lane is in an exchange, whose partners are not known.
  EXPECT_FALSE(deadlock({waiting({in("control", 5, "barrier")}, {{"control", 5}, {"peers", 1}}),
                         waiting({in("user", 2, "all_reduce"), in("peers", 1, "exchange")},
                                 {{"control", 4}, {"user", 2}, {"peers", 1}})}));
  EXPECT_FALSE(deadlock({waiting({in("control", 5, "broadcast")}, {{"control", 5}, {"user", 1}}),
                         waiting({in("user", 2, "all_reduce")}, {{"control", 4}, {"user", 2}})}));
}

TEST(Deadlock, LooksOnlyAtRanksThatHaveTheCommunicator) {
  // Rank 2 is on another node: its place is no reason for rank 0 to wait.
  EXPECT_FALSE(deadlock({waiting({in("default/node 0", 3, "all_reduce")}, {{"default/node 0", 3}}),
                         waiting({in("default/node 0", 3, "all_reduce")}, {{"default/node 0", 3}}),
                         waiting({in("default/node 1", 1, "all_reduce")}, {{"default/node 1", 1}})}));
}

TEST(Deadlock, IsReadFromWhatARankWrites) {
  host::FlightRecorder recorder;
  const cohort_comm comm{};
  recorder.name(&comm, "control");
  recorder.begin(&comm, {.operation = "barrier"});
  const auto standing = recorder.standing();
  EXPECT_TRUE(standing.at_rest);
  const auto read = waiting_from(to_text(standing));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->begun.at("control"), 1u);
  ASSERT_EQ(read->operations.size(), 1u);
  EXPECT_EQ(read->operations[0].name, "barrier");
  EXPECT_FALSE(waiting_from(""));
  EXPECT_TRUE(waiting_from(R"({"begun":{"control":1},"operations":[]})"));
  for (const char* const number : {"-1", "1.5", "1e300", "18446744073709551616", "\"1\""}) {
    EXPECT_FALSE(waiting_from(std::string(R"({"begun":{"control":)") + number + R"(},"operations":[]})")) << number;
  }
}

TEST(Deadlock, IsToldInTheSameWordsAsLongAsARankWaits) {
  host::FlightRecorder recorder;
  const cohort_comm comm{};
  recorder.name(&comm, "control");
  recorder.begin(&comm, {.operation = "barrier"});
  const std::string first = to_text(recorder.standing());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(to_text(recorder.standing()), first);
}

}  // namespace
}  // namespace cohort
