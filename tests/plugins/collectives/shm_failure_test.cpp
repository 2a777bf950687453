// What becomes of ranks that call different things, come late, stop or die, and what the others say about them.
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include <cohort/sdk/store_round.hpp>

#include "agree.hpp"
#include "memory_store.hpp"
#include "segment.hpp"
#include "shm_ranks.hpp"
#include "unequal_groups.hpp"

namespace {

using namespace cohort::test;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(ShmDisagreement, OnTheNumberOfElementsIsToldToAllRanks) {
  const auto messages = disagree(3, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    std::vector<float> values(200);
    comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, comm.rank() == 2 ? 101 : 100, COHORT_REDUCE_SUM);
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message, AllOf(HasSubstr("rank 0 called all_reduce(sum, float32, 100 elements)"),
                               HasSubstr("rank 2 called all_reduce(sum, float32, 101 elements)")));
  }
}

TEST(ShmDisagreement, OnTheTypeTheOperationOrTheRootIsToldToAllRanks) {
  disagree(2, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    double value = 1;
    comm.all_reduce(&value, &value, comm.rank() ? COHORT_FLOAT32 : COHORT_FLOAT64, 1, COHORT_REDUCE_SUM);
  });
  const auto kinds = disagree(2, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    float value = 1;
    if (comm.rank() == 0) return comm.barrier();
    comm.all_reduce(&value, &value, COHORT_FLOAT32, 1, COHORT_REDUCE_SUM);
  });
  EXPECT_THAT(kinds[0], AllOf(HasSubstr("rank 0 called barrier"), HasSubstr("rank 1 called all_reduce")));
  disagree(2, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    float value = 1;
    comm.broadcast(&value, &value, COHORT_FLOAT32, 1, comm.rank());
  });
}

TEST(ShmDisagreement, BetweenAnExchangeAndABarrierEndsBoth) {
  disagree(2, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    std::vector<uint8_t> bytes(100);
    if (comm.rank() == 0) return comm.barrier();
    comm.exchange({{bytes.data(), bytes.size(), 0, 0}});
  });
}

TEST(ShmDisagreement, LeavesTheCommunicatorUsable) {
  on_ranks(2, [](RankComm& comm) {
    std::vector<float> values(8, 1.0f);
    failure_of(
        [&] { comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, comm.rank() ? 3 : 4, COHORT_REDUCE_SUM); });
    comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, 8, COHORT_REDUCE_SUM);
    if (values[7] != 2.0f) throw std::runtime_error("the sum after a disagreement");
  });
}

TEST(ShmDisagreement, OnCountsByRankIsToldToAllRanks) {
  for (const uint64_t size : {uint64_t{10}, uint64_t{100'000}}) {
    const auto messages = disagree(2, COHORT_FAILED_PRECONDITION, [&](RankComm& comm) {
      const uint64_t own = size + (comm.rank() == 1 ? 1 : 0);
      std::vector<float> values(3 * size);
      comm.reduce_scatter(values.data(), values.data(), COHORT_FLOAT32, {own, 2 * size - own}, COHORT_REDUCE_SUM);
    });
    EXPECT_THAT(messages[0],
                AllOf(HasSubstr("rank 1 called reduce_scatter(sum"), HasSubstr("with other counts by rank")));
  }
}

TEST(ShmDeadline, NamesRankProcessOperationAndTime) {
  std::promise<void> is_over;
  std::shared_future<void> over = is_over.get_future().share();
  CallFailed first(COHORT_OK, ""), second(COHORT_OK, "");
  on_ranks(
      2,
      [&](RankComm& comm) {
        comm.barrier();
        if (comm.rank() == 1) return over.wait();
        float value = 1;
        const auto reduce = [&] { comm.all_reduce(&value, &value, COHORT_FLOAT32, 1, COHORT_REDUCE_SUM); };
        first = failure_of(reduce);
        second = failure_of(reduce);
        is_over.set_value();
      },
      std::chrono::seconds(1));
  EXPECT_EQ(std::string(first.what()),
            "rank 1 (pid " + std::to_string(::getpid()) + ") did not reach all_reduce #3 within 1 s");
  EXPECT_THAT(second.what(), AllOf(HasSubstr("unusable"), HasSubstr(first.what())));
  EXPECT_THAT(first.peers(), testing::ElementsAre(1));
  EXPECT_THAT(second.peers(), testing::ElementsAre(1));
}

TEST(ShmPeers, HearOfARankThatGaveUpBeforeTheirDeadline) {
  std::string message;
  on_ranks(2, [&](RankComm& comm) {
    if (comm.rank() == 0) return;  // closes its communicator
    const CallFailed failed = failure_of([&] { comm.barrier(); });
    if (failed.status() != COHORT_UNAVAILABLE) throw std::runtime_error(failed.what());
    message = failed.what();
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0"), HasSubstr("closed this communicator")));
}

TEST(ShmMeeting, RefusesRanksThatConnectGroupsOfDifferentSizes) {
  for (const int size_of_rank_0 : {2, 3}) {
    const std::string status = std::to_string(COHORT_FAILED_PRECONDITION);
    EXPECT_THAT(
        failures_of_unequal_groups(shm(), size_of_rank_0),
        testing::Each(AllOf(testing::StartsWith(status), HasSubstr("connects a group of"), HasSubstr("was expected"))));
  }
}

template <class Record>
void answer(MemoryStore& store, const std::string& round, const Record& record) {
  const std::string bytes(reinterpret_cast<const char*>(&record), sizeof record);
  const std::string value = cohort::sdk::with_size(2, bytes), key = "shm/" + round + "/reply";
  ASSERT_EQ(store.handle()->vt->set(store.handle(), key.c_str(), value.data(), value.size()), COHORT_OK);
}

// The test stands for a rank 0 with another layout of the control memory.
TEST(ShmMeeting, RefusesMemoryOfAnotherSize) {
  using namespace cohort::shm;
  const Segment control = Segment::create(ControlLayout::nbytes(2) + kPage, Pages::kOnTouch);
  struct {
    Outcome outcome;
    SegmentAddress address;
  } const invitation{{COHORT_OK, {}}, control.address()};
  MemoryStore store;
  answer(store, "meet", invitation);
  answer(store, "open", Outcome{COHORT_OK, {}});
  const auto join = [&] { const RankComm comm(shm(), store.handle(), 1, 2, std::chrono::seconds(1)); };
  const CallFailed failed = failure_of(join);
  EXPECT_EQ(failed.status(), COHORT_FAILED_PRECONDITION);
  EXPECT_THAT(failed.what(), MatchesRegex(".*shm cannot share the memory of process [0-9]+: it has [0-9]+ bytes, and "
                                          "this rank needs [0-9]+; start the same cohort on all ranks"));
}

/// Process numbers by rank.
std::vector<pid_t> pids_of(RankComm& comm) {
  const pid_t own = ::getpid();
  std::vector<pid_t> pids(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&own, pids.data(), COHORT_INT32, 1);
  return pids;
}

using Operation = void (*)(RankComm&);

template <uint64_t kCount>
void all_reduce(RankComm& comm) {
  std::vector<float> values(kCount);
  comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, values.size(), COHORT_REDUCE_SUM);
}

void pass_round(RankComm& comm) {
  float out = 0;
  float in = 0;
  const int right = (comm.rank() + 1) % comm.size();
  const int left = (comm.rank() + comm.size() - 1) % comm.size();
  comm.exchange({{&out, sizeof out, right, 1}, {&in, sizeof in, left, 0}});
}

constexpr Operation kOperations[] = {all_reduce<1>, all_reduce<256>, all_reduce<600'000>, pass_round};

TEST(ShmPeersDeathTest, NameTheKilledProcess) {
  const auto ends = on_processes(2, [](RankComm& comm) {
    if (comm.rank() == 1) ::raise(SIGKILL);
    comm.barrier();
  });
  EXPECT_THAT(ends[0].error, MatchesRegex("rank 1 \\(pid [0-9]+\\) is gone: .* barrier #2"));
}

/// Ends its process with SIGKILL, whatever that does by then.
void kill_after(std::chrono::microseconds time) {
  const pid_t own = ::getpid();
  if (::fork() != 0) return;
  ::usleep(static_cast<useconds_t>(time.count()));
  ::kill(own, SIGKILL);
  ::_exit(0);
}

TEST(ShmPeersDeathTest, NameAProcessThatIsKilledInTheMiddleOfAnything) {
  for (const Operation operation : kOperations) {
    for (const int delay_us : {0, 300, 2'000, 7'001}) {
      const auto ends = on_processes(3, [&](RankComm& comm) {
        pids_of(comm);
        if (comm.rank() == 1) kill_after(std::chrono::microseconds(delay_us));
        while (true) operation(comm);
      });
      EXPECT_EQ(ends[1].signal, SIGKILL);
      // A rank may only see that another one has left because of it.
      EXPECT_THAT(ends[0].error + ends[2].error, ContainsRegex("rank 1 \\(pid [0-9]+\\) is gone"));
    }
  }
}

TEST(ShmPeersDeathTest, NameAProcessThatIsStoppedAtTheDeadline) {
  for (const Operation operation : kOperations) {
    const auto ends = on_processes(
        2,
        [&](RankComm& comm) {
          const std::vector<pid_t> pids = pids_of(comm);
          if (comm.rank() == 1) ::raise(SIGSTOP);
          const CallFailed failed = failure_of([&] { operation(comm); });
          ::kill(pids[1], SIGKILL);
          throw failed;
        },
        std::chrono::seconds(1));
    EXPECT_THAT(ends[0].error, MatchesRegex("rank 1 \\(pid [0-9]+\\) did not reach .* #3 within 1 s"));
  }
}

TEST(ShmPeersDeathTest, GoOnWithAProcessThatWasStoppedForAWhile) {
  const auto ends = on_processes(2, [](RankComm& comm) {
    const std::vector<pid_t> pids = pids_of(comm);
    for (const Operation operation : kOperations) {
      if (comm.rank() == 0) {
        ::kill(pids[1], SIGSTOP);
        if (::fork() == 0) {
          ::usleep(20'000);
          ::kill(pids[1], SIGCONT);
          ::_exit(0);
        }
      }
      for (int i = 0; i < 5; ++i) operation(comm);
    }
  });
  for (const RankEnd& end : ends) EXPECT_TRUE(end.is_ok) << end.error;
}

// As a group of a node is, whose ranks have other numbers in the job.
TEST(ShmDeadline, WhileConnectingNamesARankAsTheJobDoes) {
  MemoryStore store;
  const CallFailed failed = failure_of([&] {
    RankComm alone(shm(), store.handle(), 0, 2, std::chrono::milliseconds(600), {}, {2, 3});
  });
  EXPECT_EQ(failed.status(), COHORT_DEADLINE_EXCEEDED);
  EXPECT_THAT(failed.what(), AllOf(HasSubstr("rank 3"), testing::Not(HasSubstr("rank 1"))));
  EXPECT_THAT(failed.peers(), testing::ElementsAre(1));
}

}  // namespace
