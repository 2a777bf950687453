// The promises of nccl beyond the suite, on its stand-in: failures on demand, shared GPUs, sums.
#include <cstring>

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>
#include <cohort/sdk/half.hpp>

#include "counters.hpp"
#include "elements.hpp"
#include "fakedrv.h"
#include "suite.hpp"
#include "variable.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;
using testing::AllOf;
using testing::HasSubstr;

void sum_ones(Comm& comm) {
  float value = 1;
  comm.all_reduce({.input = &value, .output = &value, .dtype = COHORT_FLOAT32, .count = 1});
  require(value == static_cast<float>(comm.size()), "the sum of ones");
}

TEST(Nccl, TellsWhatFailedBehindAnOperation) {
  const nccl_stand_in::Setting fail("NCCL_STANDIN_FAIL", "1:1");
  on_ranks(2, [](Comm& comm) {
    sum_ones(comm);
    const CallFailed failed = failure_of([&] { sum_ones(comm); });
    require(failed.status() != COHORT_OK, "a rank took a sum that had failed");
    const std::string text = failed.what();
    require(text.find("all_reduce on 'suite' failed in NCCL 2.30.3") == 0, text);
    require(comm.rank() == 0 || text.find("it was told to fail") != std::string::npos, text);
    const CallFailed again = failure_of([&] { comm.barrier(); });
    require(again.status() == failed.status(), "a later wait of all ranks does not tell of it");
  });
}

// The others leave because of the failure, and this rank hears of that first if it waits for them in host memory.
TEST(Nccl, TellsItsOwnFailureThoughOthersHaveLeft) {
  const nccl_stand_in::Setting fail("NCCL_STANDIN_FAIL", "1:1");
  on_ranks(2, [](Comm& comm, Board& board) {
    sum_ones(comm);
    if (comm.rank() == 0) {
      await(board, "failed");
      comm.abort();
      board.set("left", "");
      return;
    }
    failure_of([&] { sum_ones(comm); });
    board.set("failed", "");
    await(board, "left");
    const CallFailed failed = failure_of([&] { comm.barrier(); });
    require(failed.status() == COHORT_INTERNAL, failed.what());
  });
}

TEST(Nccl, EndsOperationsThatHangAtTheDeadline) {
  const nccl_stand_in::Setting hang("NCCL_STANDIN_HANG", "1:0");
  on_ranks(
      2,
      [](Comm& comm) {
        const CallFailed failed = failure_of([&] { sum_ones(comm); });
        require(failed.status() == COHORT_DEADLINE_EXCEEDED || failed.status() == COHORT_UNAVAILABLE, failed.what());
        require(comm.rank() == 0 || failed.status() == COHORT_DEADLINE_EXCEEDED, failed.what());
      },
      300ms);
  EXPECT_EQ(nccl_stand_in_elsewhere(), 0) << "calls for a device by threads on another";
}

// Returns what two ranks on one GPU, or the first of them, are told.
std::string refusal_on_one_gpu() {
  try {
    on_ranks(3, [](Comm& comm) { sum_ones(comm); });  // the first and the last share one
  } catch (const cohort::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Nccl, RefusesRanksOnOneGpuAndNamesTheWayOut) {
  const Variable none("NCCL_MULTI_RANK_GPU_ENABLE", "0");
  EXPECT_THAT(refusal_on_one_gpu(), AllOf(HasSubstr("ranks 0 and 2 have the same GPU, which NCCL 2.30.3 refuses"),
                                          HasSubstr("set NCCL_MULTI_RANK_GPU_ENABLE=1, or choose --collective=shm")));
  const nccl_stand_in::Setting old("NCCL_STANDIN_VERSION", "22809");
  EXPECT_THAT(refusal_on_one_gpu(), HasSubstr("NCCL 2.28.9 refuses; give each rank a GPU, choose --collective=shm"));
}

TEST(Nccl, RefusesALibraryThatIsTooOld) {
  const nccl_stand_in::Setting old("NCCL_STANDIN_VERSION", "22203");
  EXPECT_THAT(refusal_on_one_gpu(),
              HasSubstr("NCCL 2.22.3 is too old: 2.23 or newer is needed; install a LibTorch for CUDA that brings it "
                        "(2.7 or newer), or choose --collective=shm or gloo"));
}

TEST(Nccl, NamesTheOperationThatItRefuses) {
  on_ranks(2, [](Comm& comm) {
    float value = 1;
    const CallFailed failed = failure_of(
        [&] { comm.reduce({.input = &value, .output = &value, .dtype = COHORT_FLOAT32, .count = 1, .root = 2}); });
    const std::string text = failed.what();
    require(text.find("nccl reduce: root 2 of 2 ranks") != std::string::npos, text);
  });
}

// 2048 + 1 is 2048 wherever it is rounded, and 2051 is 2052.
TEST(Nccl, RoundsSumsOf16BitsOnceUnlessItsOwnAreAskedFor) {
  const bool is_own = subject().collective.options != cohort::Spec("nccl").options;
  on_ranks(4, [&](Comm& comm) {
    cohort::sdk::Half value = cohort::sdk::to_half(comm.rank() == 0 ? 2048.0f : 1.0f);
    comm.all_reduce({.input = &value, .output = &value, .dtype = COHORT_FLOAT16, .count = 1});
    const float sum = cohort::sdk::to_float(value);
    require(sum == (is_own ? 2048.0f : 2052.0f), "the sum is " + std::to_string(sum));
  });
}

// Returns how often the host waits for the devices in some sums.
uint64_t waits_for_sums(int32_t dtype) {
  const uint64_t before = fakedrv_num_waits();
  on_ranks(2, [&](Comm& comm) {
    Bytes values = random_elements(dtype, 3001, comm.rank());
    for (int i = 0; i < 5; ++i) {
      comm.all_reduce({.input = values.data(), .output = values.data(), .dtype = dtype, .count = 3001});
    }
  });
  return fakedrv_num_waits() - before;
}

TEST(Nccl, AddsHalvesWithoutAWaitOfTheHost) {
  const uint64_t waits = waits_for_sums(COHORT_FLOAT32);
  EXPECT_EQ(waits_for_sums(COHORT_FLOAT16), waits);
  EXPECT_EQ(waits_for_sums(COHORT_BFLOAT16), waits);
}

void require_bits(Comm& comm, const std::vector<Bytes>& inputs, int32_t dtype, int32_t reduce) {
  const auto size = static_cast<uint64_t>(comm.size()), rank = static_cast<uint64_t>(comm.rank());
  const uint64_t count = inputs[0].size() / 2;
  const Bytes wanted = sum_in_rank_order(dtype, inputs, reduce == COHORT_REDUCE_MEAN);
  Bytes output(inputs[0].size());
  Op op{.input = inputs[rank].data(), .output = output.data(), .dtype = dtype, .count = count, .reduce = reduce};
  comm.all_reduce(op);
  require_equal(output.data(), wanted.data(), dtype, count, "all_reduce");
  op.root = comm.size() - 1;
  comm.reduce(op);
  if (comm.rank() == op.root) require_equal(output.data(), wanted.data(), dtype, count, "reduce");
  op.count = count / size;
  comm.reduce_scatter(op);
  require_equal(output.data(), wanted.data() + rank * op.count * 2, dtype, op.count, "reduce_scatter");
}

TEST(Nccl, AddsHalvesInRankOrder) {
  for (const int size : {2, 3, 4}) {
    for (const int32_t dtype : {COHORT_FLOAT16, COHORT_BFLOAT16}) {
      std::vector<Bytes> inputs;
      for (int rank = 0; rank < size; ++rank) inputs.push_back(random_elements(dtype, 4807, rank));
      on_ranks(size, [&](Comm& comm) {
        for (const int32_t reduce : {COHORT_REDUCE_SUM, COHORT_REDUCE_MEAN}) require_bits(comm, inputs, dtype, reduce);
      });
    }
  }
}

// The third of the sum is below the middle of two halves, and the sum times the float32 that is next to 1/3 is not.
TEST(Nccl, DividesASumOfHalvesRight) {
  struct Case {
    int32_t dtype;
    double large, small, mean;
  };
  for (const auto& [dtype, large, small, mean] :
       {Case{COHORT_BFLOAT16, 776, 0x1p-14, 258}, Case{COHORT_FLOAT16, 6152, 0x1p-11, 2050}}) {
    const double values[] = {large, 1, -small};
    on_ranks(3, [&](Comm& comm) {
      std::byte value[2];
      put_element(value, dtype, 0, values[comm.rank()]);
      comm.all_reduce({.input = value, .output = value, .dtype = dtype, .count = 1, .reduce = COHORT_REDUCE_MEAN});
      require(get_element(value, dtype, 0) == mean, "the mean is " + std::to_string(get_element(value, dtype, 0)));
    });
  }
}

TEST(Nccl, AddsSharesFor16BitMeansOfItsOwn) {
  on_ranks(4, [&](Comm& comm) {
    cohort::sdk::Half value = cohort::sdk::to_half(60000.0f);  // whose sum is infinite
    comm.all_reduce(
        {.input = &value, .output = &value, .dtype = COHORT_FLOAT16, .count = 1, .reduce = COHORT_REDUCE_MEAN});
    require(cohort::sdk::to_float(value) == 60000.0f, "the mean of equal values");
  });
}

}  // namespace
