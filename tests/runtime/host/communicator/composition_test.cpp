// What the host makes of `exchange` alone, and when it takes a collective's own operation instead.
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>

#include <cohort/sdk/dtype.hpp>

#include "in_process.hpp"
#include "reductions.hpp"
#include "thread_wire.hpp"

namespace cohort::host {
namespace {

using sdk::size_of;
using test::Bytes;
using test::op_of;
using test::Reduction;
using testing::HasSubstr;

constexpr cohort_component kThreads = sdk::collective<test::ThreadWire>("threads", "exchange alone");

TEST(ACollective, WithoutExtensionsHasNoneByAnyName) {
  on_threads(kThreads, 1, [](InProcessRank& rank) {
    cohort_collective& collective = *rank.comm()->collective;
    if (collective.struct_size != sizeof collective) throw std::runtime_error("the object has another size");
    if (rank.table().get_extension(&collective, "mine/1")) throw std::runtime_error("there is an extension");
  });
}

class Composed : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Composed, testing::Values(1, 2, 3, 4, 8));

TEST_P(Composed, AllReduceGivesTheResultOfEveryTypeAndOperation) {
  on_threads(kThreads, GetParam(), [](InProcessRank& rank) {
    for (const Reduction& c : test::all_reductions({0, 1, 2, 7, 8, 9, 2500})) {
      Bytes input = test::input_of(c, rank.rank());
      const Bytes before = input;
      const Bytes wanted = test::result_of(c, rank.size());
      Bytes output(input.size());
      rank.run(rank.table().all_reduce, op_of(c, input.data(), output.data()));
      test::require_equal(output.data(), wanted.data(), c.dtype, c.count, text_of(c));
      test::require_equal(input.data(), before.data(), c.dtype, c.count, text_of(c) + ", its input");
      rank.run(rank.table().all_reduce, op_of(c, input.data(), input.data()));
      test::require_equal(input.data(), wanted.data(), c.dtype, c.count, text_of(c) + " in place");
    }
  });
}

TEST_P(Composed, ReduceServesEveryRootAndLeavesTheOthersOutputAlone) {
  on_threads(kThreads, GetParam(), [](InProcessRank& rank) {
    for (const uint64_t count : {uint64_t{0}, uint64_t{3}, uint64_t{1001}}) {
      for (int root = 0; root < rank.size(); ++root) {
        const Reduction c{COHORT_FLOAT32, COHORT_REDUCE_SUM, count};
        const Bytes input = test::input_of(c, rank.rank());
        Bytes output(input.size(), std::byte{0x5a});
        cohort_op_args args = op_of(c, input.data(), output.data());
        args.root = root;
        if (rank.rank() != root && count % 2 == 1) args.output = nullptr;
        rank.run(rank.table().reduce, args);
        const Bytes wanted =
            rank.rank() == root ? test::result_of(c, rank.size()) : Bytes(input.size(), std::byte{0x5a});
        EXPECT_EQ(output, wanted) << "root " << root;
      }
    }
  });
}

TEST_P(Composed, ReduceScatterCutsByCountsAlsoInPlaceAndWithNothingForSome) {
  on_threads(kThreads, GetParam(), [](InProcessRank& rank) {
    std::vector<uint64_t> counts;
    for (int r = 0; r < rank.size(); ++r) counts.push_back(r % 2 == 1 ? 0 : static_cast<uint64_t>(5 + 13 * r));
    const auto begin = counts.begin();
    const Reduction c{COHORT_BFLOAT16, COHORT_REDUCE_MEAN, std::accumulate(begin, counts.end(), uint64_t{0})};
    const uint64_t own = counts[static_cast<size_t>(rank.rank())];
    const uint64_t offset = std::accumulate(begin, begin + rank.rank(), uint64_t{0}) * size_of(c.dtype);
    const Bytes wanted = test::result_of(c, rank.size());
    Bytes input = test::input_of(c, rank.rank());
    Bytes output(own * size_of(c.dtype));
    cohort_op_args args = op_of(c, input.data(), output.data());
    args.count = 0;
    args.counts = counts.data();
    rank.run(rank.table().reduce_scatter, args);
    test::require_equal(output.data(), wanted.data() + offset, c.dtype, own, "out of place");
    args.output = input.data() + offset;
    rank.run(rank.table().reduce_scatter, args);
    test::require_equal(input.data() + offset, wanted.data() + offset, c.dtype, own, "in place");
  });
}

TEST_P(Composed, MovesPiecesOfDifferentSizesAndNone) {
  on_threads(kThreads, GetParam(), [](InProcessRank& rank) {
    // Rank r gives everyone r letters of its own.
    std::vector<uint64_t> counts, mine(static_cast<size_t>(rank.size()), static_cast<uint64_t>(rank.rank()));
    std::string wanted, received;
    for (int r = 0; r < rank.size(); ++r) {
      counts.push_back(static_cast<uint64_t>(r));
      wanted += std::string(static_cast<size_t>(r), static_cast<char>('a' + r));
    }
    received.resize(wanted.size());
    const std::string own(static_cast<size_t>(rank.rank()), static_cast<char>('a' + rank.rank()));
    cohort_op_args args = op_of({COHORT_UINT8, 0, 0}, own.data(), received.data());
    args.counts = counts.data();
    rank.run(rank.table().all_gather, args);
    EXPECT_EQ(received, wanted);
    const std::string all(static_cast<size_t>(rank.rank() * rank.size()), static_cast<char>('a' + rank.rank()));
    received.assign(wanted.size(), '?');
    args.input = all.data();
    args.counts = mine.data();
    args.recv_counts = counts.data();
    rank.run(rank.table().all_to_all, args);
    EXPECT_EQ(received, wanted);
  });
}

TEST_P(Composed, BroadcastAndBarrierServeEveryRoot) {
  on_threads(kThreads, GetParam(), [](InProcessRank& rank) {
    for (int root = 0; root < rank.size(); ++root) {
      const int32_t input = 100 + rank.rank();
      int32_t output = 0;
      cohort_op_args args = op_of({COHORT_INT32, 0, 1}, &input, &output);
      args.root = root;
      rank.run(rank.table().broadcast, args);
      EXPECT_EQ(output, 100 + root);
      EXPECT_EQ(rank.table().barrier(rank.comm()->collective, rank.comm()), COHORT_OK);
    }
  });
}

TEST(Composed, RefusesWhatHasNoMeaningBeforeAnythingIsSent) {
  on_threads(kThreads, 2, [](InProcessRank& rank) {
    float data[4]{};
    const auto message = [&](decltype(cohort_collective_vt::all_reduce) operation, const cohort_op_args& args) {
      return std::string(test::failure_of([&] { rank.run(operation, args); }).what());
    };
    cohort_op_args args = op_of({77, COHORT_REDUCE_SUM, 4}, data, data);
    EXPECT_THAT(message(rank.table().all_reduce, args), HasSubstr("unknown data type 77"));
    args = op_of({COHORT_FLOAT32, COHORT_REDUCE_BIT_OR, 4}, data, data);
    EXPECT_THAT(message(rank.table().all_reduce, args), HasSubstr("float32"));
    args = op_of({COHORT_FLOAT32, COHORT_REDUCE_SUM, uint64_t{1} << 60}, data, data);
    EXPECT_THAT(message(rank.table().reduce, args), HasSubstr("impossible number"));
    args = op_of({COHORT_FLOAT32, COHORT_REDUCE_SUM, 4}, data, data);
    args.root = -1;
    EXPECT_THAT(message(rank.table().broadcast, args), HasSubstr("root -1"));
    const uint64_t huge[]{~uint64_t{0}, 2};
    args.counts = huge;
    EXPECT_THAT(message(rank.table().all_gather, args), HasSubstr("impossible number"));
    args = op_of({COHORT_FLOAT32, COHORT_REDUCE_SUM, 4}, data, data);
    args.stream.device_type = COHORT_DEVICE_CUDA;
    EXPECT_THAT(message(rank.table().all_reduce, args), HasSubstr("device memory"));
    EXPECT_EQ(rank.table().barrier(rank.comm()->collective, rank.comm()), COHORT_OK);
  });
}

// So that a newer caller can tell a gap of an older host from a mistake of its own.
TEST(Composed, TellsWhatItDoesNotKnowFromWhatIsWrong) {
  on_threads(kThreads, 2, [](InProcessRank& rank) {
    const cohort_collective_vt& table = rank.table();
    float data[4]{};
    const auto status = [&](decltype(table.all_reduce) operation, int32_t dtype, int32_t reduce) {
      return test::failure_of([&] { rank.run(operation, op_of({dtype, reduce, 2}, data, data)); }).status();
    };
    for (const auto operation : {table.all_reduce, table.reduce, table.reduce_scatter}) {
      EXPECT_EQ(status(operation, 99, COHORT_REDUCE_SUM), COHORT_UNIMPLEMENTED);
      EXPECT_EQ(status(operation, COHORT_FLOAT32, COHORT_REDUCE_BIT_OR + 1), COHORT_UNIMPLEMENTED);
      EXPECT_EQ(status(operation, COHORT_FLOAT32, 0), COHORT_UNIMPLEMENTED);
      EXPECT_EQ(status(operation, COHORT_FLOAT32, COHORT_REDUCE_BIT_OR), COHORT_INVALID_ARGUMENT);
      EXPECT_EQ(status(operation, COHORT_INT32, COHORT_REDUCE_MEAN), COHORT_INVALID_ARGUMENT);
    }
    for (const auto operation : {table.broadcast, table.all_gather, table.all_to_all}) {
      EXPECT_EQ(status(operation, 99, 0), COHORT_UNIMPLEMENTED);
    }
    int32_t sum = rank.rank() + 1;
    rank.run(table.all_reduce, op_of({COHORT_INT32, COHORT_REDUCE_SUM, 1}, &sum, &sum));
    EXPECT_EQ(sum, 3) << "nothing was sent before";
  });
}

// ---- exchanges that are refused

struct {
  int exchange = 1;  // of a communicator
  cohort_status status = COHORT_INVALID_ARGUMENT;
} refusal;

class RefusingComm : public test::ThreadWireComm {
 public:
  using ThreadWireComm::ThreadWireComm;
  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream) {
    if (++count_ == refusal.exchange) throw sdk::Error(refusal.status, "these messages are refused");
    ThreadWireComm::exchange(messages, stream);
  }

 private:
  int count_ = 0;
};
struct Refusing : sdk::Collective<Refusing, RefusingComm> {
  std::unique_ptr<RefusingComm> connect(const cohort_connect_args& args) {
    return test::connect_threads<RefusingComm>(args);
  }
};
constexpr cohort_component kRefusing = sdk::collective<Refusing>("refusing", "refuses one exchange");

// Runs the operation on three ranks; each of them must end with this status and the collective's words.
void expect_of_refusal(decltype(&cohort_collective_vt::all_reduce) slot, cohort_status wanted) {
  on_threads(kRefusing, 3, [&](InProcessRank& rank) {
    float data[6]{};
    const auto failed = test::failure_of([&] {
      rank.run(rank.table().*slot, op_of({COHORT_FLOAT32, COHORT_REDUCE_SUM, 6}, data, data));
    });
    EXPECT_EQ(failed.status(), wanted);
    EXPECT_THAT(failed.what(), HasSubstr("these messages are refused"));
  });
}

TEST(ARefusedExchange, FailsTheOperationThatHasSentSomething) {
  for (const cohort_status status : {COHORT_INVALID_ARGUMENT, COHORT_UNIMPLEMENTED}) {
    for (const auto slot :
         {&cohort_collective_vt::all_reduce, &cohort_collective_vt::reduce, &cohort_collective_vt::broadcast}) {
      refusal = {1, status};
      expect_of_refusal(slot, status);
      refusal = {2, status};
      expect_of_refusal(slot, COHORT_INTERNAL);
    }
    for (const auto slot : {&cohort_collective_vt::reduce_scatter, &cohort_collective_vt::all_to_all}) {
      refusal = {1, status};
      on_threads(kRefusing, 3, [&](InProcessRank& rank) {
        float data[18]{}, result[18]{};
        const auto call = [&] { rank.run(rank.table().*slot, op_of({COHORT_FLOAT32, 1, 6}, data, result)); };
        EXPECT_EQ(test::failure_of(call).status(), status);
      });
    }
  }
}

TEST(ARefusedExchange, FailsTheBarrierThatHasBegun) {
  for (const int exchange : {1, 2}) {
    refusal = {exchange, COHORT_INVALID_ARGUMENT};
    on_threads(kRefusing, 3, [&](InProcessRank& rank) {
      const cohort_status status = rank.table().barrier(rank.comm()->collective, rank.comm());
      EXPECT_EQ(status, exchange == 1 ? COHORT_INVALID_ARGUMENT : COHORT_INTERNAL);
    });
  }
}

// ---- a collective's own operations

// Says that it has summed: an all_reduce that puts 42 into every float32 and leaves other types to the host.
class AnswerComm : public test::ThreadWireComm {
 public:
  using ThreadWireComm::ThreadWireComm;
  void all_reduce(const cohort_op_args& args) {
    if (args.dtype != COHORT_FLOAT32) throw sdk::Error(COHORT_UNIMPLEMENTED, "float32 only");
    std::fill_n(static_cast<float*>(args.output), args.count, 42.0f);
  }
};
struct Answer : sdk::Collective<Answer, AnswerComm> {
  std::unique_ptr<AnswerComm> connect(const cohort_connect_args& args) {
    return test::connect_threads<AnswerComm>(args);
  }
};
struct OrderedAnswer : sdk::Collective<OrderedAnswer, AnswerComm> {
  static constexpr bool kRankOrdered = true;
  static constexpr bool kRoundsOnce = true;
  std::unique_ptr<AnswerComm> connect(const cohort_connect_args& args) {
    return test::connect_threads<AnswerComm>(args);
  }
};
struct RoundingAnswer : sdk::Collective<RoundingAnswer, AnswerComm> {
  static constexpr bool kRankOrdered = true;
  std::unique_ptr<AnswerComm> connect(const cohort_connect_args& args) {
    return test::connect_threads<AnswerComm>(args);
  }
};
constexpr cohort_component kAnswer = sdk::collective<Answer>("answer", "sums in its own order");
constexpr cohort_component kOrderedAnswer = sdk::collective<OrderedAnswer>("ordered", "claims order and rounding");
constexpr cohort_component kRoundingAnswer = sdk::collective<RoundingAnswer>("rounding", "claims rank order alone");

float all_reduced(const cohort_component& component, bool deterministic) {
  float result = 0;
  on_threads(
      component, 2,
      [&](InProcessRank& rank) {
        float value = 1;
        rank.run(rank.table().all_reduce, op_of({COHORT_FLOAT32, COHORT_REDUCE_SUM, 1}, &value, &value));
        if (rank.rank() == 0) result = value;
      },
      deterministic);
  return result;
}

TEST(OwnOperations, AreTakenWhereTheCollectiveHasThem) {
  EXPECT_EQ(all_reduced(kAnswer, false), 42.0f);
}

TEST(OwnOperations, ThatLeaveATypeToTheHostAreComposed) {
  on_threads(kAnswer, 3, [](InProcessRank& rank) {
    double value = 1 + rank.rank();
    rank.run(rank.table().all_reduce, op_of({COHORT_FLOAT64, COHORT_REDUCE_SUM, 1}, &value, &value));
    EXPECT_EQ(value, 6.0);
  });
}

TEST(OwnOperations, OfATypeThatNobodyKnowsAreRefused) {
  on_threads(kAnswer, 2, [](InProcessRank& rank) {
    double value = 1;
    const auto failed = test::failure_of([&] {
      rank.run(rank.table().all_reduce, op_of({99, COHORT_REDUCE_SUM, 1}, &value, &value));
    });
    EXPECT_EQ(failed.status(), COHORT_UNIMPLEMENTED);
    EXPECT_THAT(failed.what(), HasSubstr("all_reduce: unknown data type 99"));
  });
}

TEST(OwnOperations, SumInRankOrderUnderDeterministicOrNotAtAll) {
  EXPECT_EQ(all_reduced(kAnswer, true), 2.0f);
  EXPECT_EQ(all_reduced(kRoundingAnswer, true), 2.0f);
  EXPECT_EQ(all_reduced(kOrderedAnswer, true), 42.0f);
}

TEST(Deterministic, EveryWireGivesTheBitsOfASumFromLeftToRight) {
  constexpr uint64_t kCount = 5001;
  Log log(silence());
  PluginSearch search;
  search.directories = {COHORT_TEST_PLUGINS};
  PluginHost plugins(search, log);
  const cohort_component& shm = plugins.open(Kind::kCollective, "shm");
  for (const int32_t dtype : {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16}) {
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < 4; ++rank) inputs.push_back(test::random_elements(dtype, kCount, rank));
    const Bytes wanted = test::sum_in_rank_order(dtype, inputs, true);
    for (const cohort_component* component : {&kThreads, &kAnswer, &shm}) {
      on_threads(
          *component, 4,
          [&](InProcessRank& rank) {
            const Reduction c{dtype, COHORT_REDUCE_MEAN, kCount};
            Bytes data = inputs[static_cast<size_t>(rank.rank())];
            rank.run(rank.table().all_reduce, op_of(c, data.data(), data.data()));
            EXPECT_EQ(data, wanted) << sdk::name_of(dtype) << " on " << component->name;
          },
          true);
    }
  }
}

}  // namespace
}  // namespace cohort::host
