#include <cohort/diagnosis/verdict.hpp>

#include <gmock/gmock.h>

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Operation operation(const char* communicator, uint64_t number, const char* call, const char* status = "OK",
                    const char* purpose = "") {
  Operation one;
  one.communicator = communicator;
  one.number = number;
  one.name = std::string(call).substr(0, std::string(call).find(' '));
  one.call = call;
  one.purpose = purpose;
  one.status = status;
  one.begun = one.ended = static_cast<double>(number);
  return one;
}

// Rank 0 of `world` judges; nobody else has said anything.
Evidence evidence(int world, std::vector<Operation> own) {
  Evidence evidence;
  evidence.own = {4, true, "step 3: it went wrong", std::move(own)};
  for (int rank = 0; rank < world; ++rank) evidence.peers.push_back({rank, 100 + rank, "here", "space", 1});
  evidence.words.resize(static_cast<size_t>(world));
  evidence.states.assign(static_cast<size_t>(world), ProcessState::kRunning);
  return evidence;
}

LastWords echo(std::vector<Operation> operations) {
  return {4, true, "I gave up", std::move(operations)};
}

std::string sentence(const Evidence& evidence) {
  return sentence_of(judge(evidence), evidence.own.error);
}

TEST(Verdict, NamesARankThatFailedByItselfWithItsError) {
  Evidence three = evidence(3, {});
  three.words[1] = echo({});
  const std::string published = "rank 2 (pid 102 on here) failed: " + three.own.error;
  EXPECT_EQ(sentence_of({published, false}, three.own.error), three.own.error);
  EXPECT_EQ(sentence_of({published, false}, "another"), published + "; seen here as: another");
  three.words[2] = LastWords{1, false, "no such file 'x'", {}};
  EXPECT_EQ(sentence(three), "rank 2 (pid 102 on here) failed: no such file 'x'; seen here as: step 3: it went wrong");
}

TEST(Verdict, AMistakeThatAllRanksFindIsToldOnceAsTheirOwn) {
  Evidence three = evidence(3, {});
  three.words[1] = LastWords{2, false, three.own.error, {}};
  three.words[2] = LastWords{2, false, three.own.error, {}};
  EXPECT_EQ(sentence(three), three.own.error);
  three.words[2] = LastWords{1, false, "no such file 'x'", {}};
  EXPECT_EQ(sentence(three), "rank 2 (pid 102 on here) failed: no such file 'x'; seen here as: " + three.own.error);
}

TEST(Verdict, NamesARankThatIsGoneAndTheLastOperationItTookPartIn) {
  Evidence two = evidence(2, {operation("control", 1, "barrier"),
                              operation("default/world", 6, "all_reduce mean of float32[10]", "OK", "bucket 1 (a)"),
                              operation("default/world", 7, "broadcast of uint8[3] with root 0"),
                              operation("default/world", 8, "all_reduce mean of float32[10]", "UNAVAILABLE")});
  two.states[1] = ProcessState::kGone;
  EXPECT_THAT(sentence(two),
              AllOf(HasSubstr("rank 1 (pid 101 on here) is gone"),
                    HasSubstr("last seen in all_reduce mean of float32[10], #6 of default/world, for bucket 1 (a)"),
                    HasSubstr("step 3")));
}

TEST(Verdict, NamesStoppedRanksAndNotThoseThatOnlyWaited) {
  Evidence four = evidence(4, {});
  four.words[1] = echo({});
  four.states[2] = four.states[3] = ProcessState::kStopped;
  EXPECT_THAT(sentence(four), AllOf(HasSubstr("rank 2 (pid 102 on here) is stopped"),
                                    HasSubstr("rank 3 (pid 103 on here) is stopped"), Not(HasSubstr("rank 1"))));
}

TEST(Verdict, FindsTheFirstOperationThatRanksCallDifferently) {
  Evidence two =
      evidence(2, {operation("default/world", 16, "all_reduce of float32[7]"),
                   operation("default/world", 17, "all_reduce of float32[1000]", "DEADLINE_EXCEEDED", "bucket 2"),
                   operation("default/world", 18, "barrier", "running")});
  two.words[1] = echo({operation("default/world", 16, "all_reduce of float32[7]"),
                       operation("default/world", 17, "broadcast of uint8[4] with root 0", "DEADLINE_EXCEEDED"),
                       operation("default/world", 18, "all_gather of uint8[4]")});
  const Verdict verdict = judge(two);
  EXPECT_TRUE(verdict.ranks_disagree);
  EXPECT_THAT(
      verdict.causes,
      AllOf(HasSubstr("ranks differ in operation #17 of default/world: rank 0 called all_reduce of float32[1000] "
                      "for bucket 2, rank 1 called broadcast of uint8[4] with root 0"),
            Not(HasSubstr("#18"))));
}

TEST(Verdict, TakesAFailedOperationForTheCauseOnlyWhereRanksAgreeOnIt) {
  Evidence two = evidence(2, {operation("default/world", 7, "barrier", "UNAVAILABLE")});
  two.words[1] =
      LastWords{1, true, "the wire says that sizes differ", {operation("default/world", 7, "barrier", "INTERNAL")}};
  EXPECT_THAT(sentence(two), HasSubstr("rank 1 (pid 101 on here) failed: the wire says"));
  two.words[1]->operations = {operation("default/world", 7, "all_gather of uint8[4]", "INTERNAL")};
  EXPECT_TRUE(judge(two).ranks_disagree);
  EXPECT_THAT(sentence(two), Not(HasSubstr("the wire says")));
}

TEST(Verdict, PutsRanksThatCallTheSameTogether) {
  Evidence three = evidence(3, {operation("control", 2, "barrier")});
  three.words[1] = echo({operation("control", 2, "all_reduce sum of float64[1]", "ABORTED", "metrics")});
  three.words[2] = echo({operation("control", 2, "barrier")});
  EXPECT_THAT(sentence(three),
              HasSubstr("ranks differ in operation #2 of control: ranks 0, 2 called barrier, rank 1 called all_reduce "
                        "sum of float64[1] for metrics; seen here as"));
}

TEST(Verdict, TakesADifferenceForNoCauseWhereARankIsGone) {
  Evidence three = evidence(3, {operation("control", 4, "barrier")});
  three.words[1] = echo({operation("control", 4, "all_reduce of float64[1]")});
  three.states[2] = ProcessState::kGone;
  EXPECT_FALSE(judge(three).ranks_disagree);
}

TEST(Verdict, TellsWhereOtherRanksWait) {
  Evidence two = evidence(2, {operation("default/world", 17, "all_reduce of float32[10]", "DEADLINE_EXCEEDED")});
  two.words[1] = echo({operation("control", 5, "barrier", "DEADLINE_EXCEEDED")});
  EXPECT_THAT(sentence(two), HasSubstr("rank 1 was in barrier, #5 of control"));
}

TEST(Verdict, CallsARankThatRunsBusy) {
  EXPECT_THAT(sentence(evidence(2, {})), HasSubstr("rank 1 (pid 101 on here) runs but has not failed"));
}

Operation waiting(std::vector<int> peers, const char* status) {
  Operation one = operation("default/world", 17, "all_reduce of float32[10]", status);
  one.peers = std::move(peers);
  return one;
}

TEST(Verdict, SaysWhoWaitedForASilentRank) {
  Evidence three = evidence(3, {waiting({2}, "DEADLINE_EXCEEDED")});
  three.words[1] = echo({waiting({2}, "DEADLINE_EXCEEDED")});
  EXPECT_THAT(sentence(three),
              HasSubstr("rank 2 (pid 102 on here) runs but has not failed: it is busy elsewhere, waited for by "
                        "ranks 0, 1; seen here as"));
}

TEST(Verdict, CallsARankOfAnotherMachineGoneIfItsConnectionBroke) {
  Evidence three = evidence(3, {waiting({1}, "UNAVAILABLE")});
  three.words[1] = echo({waiting({2}, "UNAVAILABLE")});
  three.states[2] = ProcessState::kUnknown;
  EXPECT_THAT(sentence(three), AllOf(HasSubstr("rank 2 (pid 102 on here) is gone: its connection to rank 1 broke; "),
                                     Not(HasSubstr("rank 1 (pid"))));
}

TEST(Verdict, TellsForWhomARankWaitsElsewhere) {
  Evidence two = evidence(2, {operation("default/world", 17, "all_reduce of float32[10]", "DEADLINE_EXCEEDED")});
  two.words[1] = echo({operation("control", 5, "barrier", "DEADLINE_EXCEEDED")});
  two.words[1]->operations.front().peers = {0};
  EXPECT_THAT(sentence(two), HasSubstr("rank 1 was in barrier, #5 of control, waiting for rank 0"));
}

TEST(Verdict, BlamesNobodyForSilenceWhereTheStoreDoesNotAnswer) {
  Evidence three = evidence(3, {});
  three.rank = 1;
  three.heard_all = false;
  three.states.assign(3, ProcessState::kUnknown);
  EXPECT_THAT(sentence(three),
              AllOf(HasSubstr("rank 0 (pid 100 on here), or whoever serves the store"), Not(HasSubstr("rank 2"))));
}

TEST(Verdict, CallsNobodyKilledWhoMayHaveSaidWhyToAStoreThatIsGone) {
  Evidence three = evidence(3, {});
  three.rank = 2;
  three.heard_all = false;
  three.states = {ProcessState::kGone, ProcessState::kGone, ProcessState::kUnknown};
  EXPECT_EQ(sentence(three),
            "rank 0 (pid 100 on here) is gone (it was killed, or ended without a word); rank 1 (pid 101 on here) has "
            "ended (what it said is lost with the store); seen here as: step 3: it went wrong");
}

TEST(Verdict, KeepsTheErrorWhereNothingElseIsKnown) {
  Evidence two = evidence(2, {});
  two.words[1] = echo({});
  EXPECT_EQ(sentence(two), "step 3: it went wrong");
}

}  // namespace
}  // namespace cohort
