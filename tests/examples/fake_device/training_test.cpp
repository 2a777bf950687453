// Every strategy trains on the fake device to the bits of the CPU, under the race check.
#include <gmock/gmock.h>

#include "training.hpp"

namespace cohort::test {
namespace {

const std::vector<Training> kTrainings{
    {.name = "Single", .strategy = "single", .ranks = 1},
    {.name = "Dp", .strategy = "dp", .ranks = 1, .replicas = 3},
    {.name = "Ddp", .strategy = "ddp"},
    {.name = "DdpAlone", .strategy = "ddp", .ranks = 1},
    {.name = "DdpOfFour", .strategy = "ddp", .ranks = 4, .nodes = 2},
    {.name = "DdpInFloat64", .strategy = "ddp", .dtype = COHORT_FLOAT64},
    {.name = "DdpInBfloat16", .strategy = "ddp", .dtype = COHORT_BFLOAT16},
    {.name = "DdpFp16", .strategy = "ddp,compression=fp16"},
    {.name = "DdpBf16", .strategy = "ddp,compression=bf16", .ranks = 3},
    {.name = "SingleInParts", .strategy = "single", .ranks = 1, .is_in_parts = true},
    {.name = "DdpInParts", .strategy = "ddp", .ranks = 3, .optimizer = "adam", .is_in_parts = true},
    {.name = "DdpFp16InParts", .strategy = "ddp,compression=fp16", .is_in_parts = true},
    {.name = "Ddp2", .strategy = "ddp2", .ranks = 2, .nodes = 2, .replicas = 2},
    {.name = "Sharded", .strategy = "sharded", .ranks = 3, .optimizer = "adam"},
    {.name = "ShardedClipped", .strategy = "sharded", .ranks = 3, .clips = true},
    {.name = "DdpClipped", .strategy = "ddp", .clips = true},
    {.name = "Horovod", .strategy = "horovod"},
    {.name = "HorovodSum", .strategy = "horovod,op=sum"},
    {.name = "HorovodFp16", .strategy = "horovod,compression=fp16"},
    {.name = "Adasum", .strategy = "horovod,op=adasum", .ranks = 4, .one_bucket = true},
    {.name = "GradientAllreduce", .strategy = "bagua:gradient_allreduce"},
    {.name = "GradientAllreduceNodes",
     .strategy = "bagua:gradient_allreduce,hierarchical=true",
     .ranks = 4,
     .nodes = 2},
    {.name = "Bytegrad", .strategy = "bagua:bytegrad", .ranks = 3},
    {.name = "BytegradNodes", .strategy = "bagua:bytegrad,hierarchical=true", .ranks = 4, .nodes = 2},
    {.name = "BytegradInBfloat16", .strategy = "bagua:bytegrad", .dtype = COHORT_BFLOAT16},
    {.name = "Decentralized", .strategy = "bagua:decentralized", .ranks = 3, .one_bucket = true},
    {.name = "DecentralizedNodes",
     .strategy = "bagua:decentralized,hierarchical=true",
     .ranks = 4,
     .nodes = 2,
     .one_bucket = true},
    {.name = "DecentralizedPairs",
     .strategy = "bagua:decentralized,peer_selection_mode=shift_one",
     .ranks = 4,
     .one_bucket = true},
    {.name = "DecentralizedPairsOfNodes",
     .strategy = "bagua:decentralized,peer_selection_mode=shift_one,hierarchical=true",
     .ranks = 4,
     .nodes = 2,
     .one_bucket = true},
    {.name = "LowPrecision", .strategy = "bagua:low_precision_decentralized,check_replicas_every=2", .ranks = 3},
    {.name = "LowPrecisionPair", .strategy = "bagua:low_precision_decentralized"},
    {.name = "LowPrecisionInFloat64", .strategy = "bagua:low_precision_decentralized", .dtype = COHORT_FLOAT64},
    {.name = "LowPrecisionNodes",
     .strategy = "bagua:low_precision_decentralized,hierarchical=true",
     .ranks = 4,
     .nodes = 2},
    {.name = "QadamWarmUp", .strategy = "bagua:qadam,warmup_steps=100", .optimizer = "adam"},
    {.name = "Qadam", .strategy = "bagua:qadam,warmup_steps=2", .ranks = 3, .optimizer = "adam"},
    {.name = "QadamOfAdamW", .strategy = "bagua:qadam,warmup_steps=1", .optimizer = "adamw"},
    {.name = "QadamNodes",
     .strategy = "bagua:qadam,warmup_steps=1,hierarchical=true",
     .ranks = 4,
     .nodes = 2,
     .optimizer = "adam"},
    {.name = "AsyncWarmUp", .strategy = "bagua:async,warmup_steps=2,sync_interval_ms=86400000", .one_bucket = true},
    {.name = "AsyncRound", .strategy = "bagua:async,sync_interval_ms=1", .one_bucket = true, .steps = 1},
};

const char* wire_of(const Training& training) {
  return training.nodes > 1 ? "sim,over=shm,bandwidth=100Gbit,latency=1us" : "shm";
}

class FakeDeviceTraining : public testing::TestWithParam<Training> {
 protected:
  static void SetUpTestSuite() { fakedrv_set_eager(0); }

  void expect_the_cpus_bits(const char* wire) const {
    const Training& training = GetParam();
    const uint64_t races_before = fakedrv_num_races();
    const auto on_cpu = train(training, wire_of(training));
    const auto on_device = train(training, wire, fake_device_of);
    for (size_t rank = 0; rank < on_cpu.size(); ++rank) {
      EXPECT_EQ(on_device[rank].weights, on_cpu[rank].weights) << "rank " << rank;
      EXPECT_EQ(on_device[rank].momenta, on_cpu[rank].momenta) << "rank " << rank;
      EXPECT_EQ(on_device[rank].squares, on_cpu[rank].squares) << "rank " << rank;
      EXPECT_EQ(on_device[rank].steps, on_cpu[rank].steps) << "rank " << rank;
    }
    EXPECT_EQ(fakedrv_num_races(), races_before);
    for (int device = 0; device < FAKEDRV_DEVICES; ++device) EXPECT_EQ(fakedrv_allocated(device), 0u);
  }
};

INSTANTIATE_TEST_SUITE_P(Of, FakeDeviceTraining, testing::ValuesIn(kTrainings),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(FakeDeviceTraining, HasTheBitsOfTheCpuWhenWorkIsLazy) {
  expect_the_cpus_bits(wire_of(GetParam()));
}

TEST_P(FakeDeviceTraining, HasTheBitsOfTheCpuWhenWorkIsEager) {
  fakedrv_set_eager(1);
  expect_the_cpus_bits(wire_of(GetParam()));
  fakedrv_set_eager(0);
}

// Nothing but work that is enqueued: no wait of the host hides an order that is missing.
TEST_P(FakeDeviceTraining, HasTheCpusBitsOverDeviceMemory) {
  if (GetParam().nodes > 1) return;  // its ranks are threads of one node
  expect_the_cpus_bits("peer");
}

TEST(PartsOnDevices, AreRefusedForAStrategyThatIsSilent) {
  const Training training{.name = "", .strategy = "horovod", .is_in_parts = true};
  for (const std::string& failure : train_to_failure(training, "shm", fake_device_of)) {
    EXPECT_EQ(failure,
              "parameters 'd' and 'b' are on different devices: strategy 'horovod' cannot train a model on several "
              "devices of a process: it does not say that it takes buckets on several devices; move the model to one "
              "device before training, or choose another --strategy");
  }
}

}  // namespace
}  // namespace cohort::test
