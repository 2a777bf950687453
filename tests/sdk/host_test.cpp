#include <cohort/sdk/host.hpp>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "fake_host.hpp"

namespace {

using cohort::sdk::BFloat16;
using cohort::sdk::Error;
using cohort::sdk::Host;
using cohort::sdk::TensorView;
using cohort::test::FakeHost;
using testing::ElementsAre;
using testing::HasSubstr;

cohort_status status_of(const std::function<void()>& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message) *message = error.what();
    return error.status();
  }
  return COHORT_OK;
}

cohort_tensor float_tensor(std::vector<float>& values) {
  cohort_tensor tensor{};
  tensor.data = values.data();
  tensor.name = "w";
  tensor.nbytes = values.size() * sizeof(float);
  tensor.dtype = COHORT_FLOAT32;
  tensor.device_type = COHORT_DEVICE_CPU;
  tensor.flags = COHORT_TENSOR_DENSE;
  return tensor;
}

TEST(SdkHost, NamesTheServiceThatIsMissing) {
  FakeHost fake;
  const Host host(fake.raw());
  std::string message;
  EXPECT_EQ(status_of([&] { host.buckets(); }, &message), COHORT_FAILED_PRECONDITION);
  EXPECT_THAT(message, HasSubstr(COHORT_BUCKETS_ID));
}

TEST(SdkHost, LooksUpAServiceOnceItIsThere) {
  FakeHost fake;
  const Host host(fake.raw());
  EXPECT_EQ(status_of([&] { host.world(); }), COHORT_FAILED_PRECONDITION);
  cohort_comm_1 table{};
  table.get = [](const cohort_host*, int32_t) noexcept -> cohort_comm* { return nullptr; };
  fake.offer(COHORT_COMM_ID, &table);
  EXPECT_FALSE(host.world());
  EXPECT_FALSE(host.leaders());
  EXPECT_EQ(fake.lookups(COHORT_COMM_ID), 2);
}

TEST(SdkHost, LogsOnlyLevelsThatAreEnabledAndNothingWithoutALog) {
  FakeHost fake;
  fake.set_log_level(COHORT_LOG_WARNING);
  const Host host(fake.raw());
  host.log().info("unheard");
  host.log().warning("rank ", 3, " of ", 4);
  EXPECT_THAT(fake.log_lines(), ElementsAre("rank 3 of 4"));

  FakeHost mute;
  mute.offer(COHORT_LOG_ID, nullptr);
  Host(mute.raw()).log().error("unheard");
}

TEST(SdkHost, PassesOperationsToTheCommunicatorAndThrowsWhereTheyFail) {
  static cohort_op_args seen;
  FakeHost fake;
  static cohort_comm comm{sizeof(cohort_comm), 1, 3, 0, nullptr, nullptr};
  cohort_comm_1 table{};
  table.get = [](const cohort_host*, int32_t role) noexcept { return role == COHORT_ROLE_WORLD ? &comm : nullptr; };
  table.all_reduce = [](const cohort_host*, cohort_comm*, const cohort_op_args* args) noexcept {
    seen = *args;
    return COHORT_OK;
  };
  table.barrier = [](const cohort_host*, cohort_comm*) noexcept { return COHORT_UNAVAILABLE; };
  fake.offer(COHORT_COMM_ID, &table);
  const Host host(fake.raw());
  std::vector<float> values(5);
  ASSERT_TRUE(host.world());
  EXPECT_EQ(host.world().rank(), 1);
  EXPECT_EQ(host.world().size(), 3);
  host.world().all_reduce({values.data(), values.size(), COHORT_FLOAT32}, COHORT_REDUCE_MEAN);
  EXPECT_EQ(seen.struct_size, sizeof(cohort_op_args));
  EXPECT_EQ(seen.input, values.data());
  EXPECT_EQ(seen.output, values.data());
  EXPECT_EQ(seen.count, 5u);
  EXPECT_EQ(seen.dtype, COHORT_FLOAT32);
  EXPECT_EQ(seen.reduce, COHORT_REDUCE_MEAN);
  EXPECT_EQ(seen.stream.device_type, COHORT_DEVICE_CPU);
  EXPECT_EQ(status_of([&] { host.world().barrier(); }), COHORT_UNAVAILABLE);
}

// Memory of a device that counts.
struct Device {
  static inline int alive = 0;  // the table's functions get no pointer of ours
  cohort_memory_1 memory{};
  cohort_stream_1 streams{};

  explicit Device(FakeHost& fake) {
    memory.alloc = [](const cohort_host* host, int32_t type, int32_t, uint64_t nbytes, void** data) noexcept {
      if (type != COHORT_DEVICE_EXT) return host->fail(host, COHORT_NOT_FOUND, "no such device");
      *data = new std::byte[nbytes];
      ++alive;
      return COHORT_OK;
    };
    memory.release = [](const cohort_host*, void* data) noexcept {
      delete[] static_cast<std::byte*>(data);
      --alive;
      return COHORT_OK;
    };
    streams.current = [](const cohort_host*, int32_t type, int32_t index, cohort_stream* stream) noexcept {
      *stream = {&alive, type, index};
      return COHORT_OK;
    };
    fake.offer(COHORT_MEMORY_ID, &memory);
    fake.offer(COHORT_STREAM_ID, &streams);
  }
};

TEST(SdkMemory, IsReleasedOnceByWhoeverHasItLast) {
  FakeHost fake;
  const Device device(fake);
  const Host host(fake.raw());
  {
    cohort::sdk::DeviceBuffer first = host.alloc(COHORT_DEVICE_EXT, 1, 64), second;
    EXPECT_EQ(first.nbytes(), 64u);
    EXPECT_EQ(first.at(8), static_cast<std::byte*>(first.data()) + 8);
    void* const data = first.data();
    second = std::move(first);
    EXPECT_EQ(second.data(), data);
    EXPECT_EQ(Device::alive, 1);
    second = host.alloc(COHORT_DEVICE_EXT, 1, 8);
    EXPECT_EQ(Device::alive, 1);
    first = std::move(second);
    EXPECT_EQ(first.nbytes(), 8u);
  }
  EXPECT_EQ(Device::alive, 0);
  EXPECT_EQ(status_of([&] { host.alloc(3, 0, 8); }), COHORT_NOT_FOUND);
  EXPECT_EQ(Device::alive, 0);
}

TEST(SdkMemory, IsWrittenByTheHost) {
  FakeHost fake;
  Device device(fake);
  device.memory.write = [](const cohort_host* host, void* to, const void* from, uint64_t nbytes,
                           const cohort_stream* stream) noexcept {
    if (stream->device_type != COHORT_DEVICE_EXT) return host->fail(host, COHORT_NOT_FOUND, "no such device");
    std::memcpy(to, from, nbytes);
    return COHORT_OK;
  };
  const Host host(fake.raw());
  const double given = 2.5;
  double there = 0;
  host.write(&there, &given, sizeof given, host.stream(COHORT_DEVICE_EXT, 1));
  EXPECT_EQ(there, 2.5);
  EXPECT_EQ(status_of([&] { host.write(&there, &given, sizeof given, host.stream(3, 0)); }), COHORT_NOT_FOUND);
}

TEST(SdkHost, FindsTheCommunicatorOfABucketByItsRole) {
  FakeHost fake;
  static cohort_comm world{sizeof(cohort_comm), 1, 3, 0, nullptr, nullptr},
      part{sizeof(cohort_comm), 0, 2, 0, nullptr, nullptr};
  cohort_comm_1 table{};
  table.get = [](const cohort_host*, int32_t role) noexcept { return role == 40 ? &part : &world; };
  fake.offer(COHORT_COMM_ID, &table);
  cohort_bucket bucket{};
  bucket.role = 40;
  EXPECT_EQ(Host(fake.raw()).comm(bucket).raw(), &part);
  bucket.role = COHORT_ROLE_WORLD;
  EXPECT_EQ(Host(fake.raw()).comm(bucket).raw(), &world);
}

TEST(SdkMemory, HasStreamsOfTheBucketsDevice) {
  FakeHost fake;
  const Device device(fake);
  cohort_bucket bucket{};
  bucket.device_type = COHORT_DEVICE_EXT;
  bucket.device_index = 1;
  const cohort_stream stream = Host(fake.raw()).stream(bucket);
  EXPECT_EQ(stream.native, &Device::alive);
  EXPECT_EQ(stream.device_type, COHORT_DEVICE_EXT);
  EXPECT_EQ(stream.device_index, 1);
}

TEST(SdkOptimizers, GiveNothingWhereTheHostKnowsNone) {
  FakeHost fake;
  cohort_optimizer_1 table{};
  table.count = [](const cohort_host*) noexcept { return 1u; };
  table.kind = [](const cohort_host*, uint32_t phase) noexcept { return phase == 0 ? "adam" : nullptr; };
  table.hyper = [](const cohort_host*, uint32_t parameter, const char* name, double* value) noexcept {
    *value = 0.5;
    if (parameter > 1) return COHORT_INVALID_ARGUMENT;
    return name == std::string("lr") || name == std::string("lr_factor") ? COHORT_OK : COHORT_NOT_FOUND;
  };
  fake.offer(COHORT_OPTIMIZER_ID, &table);
  const Host host(fake.raw());
  EXPECT_EQ(host.optimizers().count(), 1u);
  EXPECT_EQ(host.optimizers().kind(0), "adam");
  EXPECT_EQ(host.optimizers().hyper(0, "lr"), 0.5);
  EXPECT_EQ(host.optimizers().hyper(0, "lr_factor"), 0.5);
  EXPECT_EQ(host.optimizers().hyper(0, "momentum"), std::nullopt);
  EXPECT_EQ(status_of([&] { host.optimizers().hyper(2, "lr"); }), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([&] { (void)host.optimizers().kind(1); }), COHORT_INVALID_ARGUMENT);
}

// A lane that runs its tasks at once.
cohort_lane_1 lane_table() {
  cohort_lane_1 table{};
  table.create = [](const cohort_host*, const char* name, uint32_t* lane) noexcept {
    *lane = 3;
    return name == std::string("aside") ? COHORT_OK : COHORT_INVALID_ARGUMENT;
  };
  table.submit = [](const cohort_host*, uint32_t lane, cohort_lane_task task, void* arg, uint64_t* ticket) noexcept {
    *ticket = 10 + lane;
    return task(arg);
  };
  table.wait = [](const cohort_host*, uint32_t, uint64_t ticket, int64_t timeout_ns, uint32_t* done) noexcept {
    if (done) *done = ticket == 13 ? 1 : 0;
    return done || timeout_ns < 0 ? COHORT_OK : COHORT_INVALID_ARGUMENT;
  };
  return table;
}

TEST(SdkLane, RunsTasksAndCatchesWhatTheyThrow) {
  FakeHost fake;
  const cohort_lane_1 table = lane_table();
  fake.offer(COHORT_LANE_ID, &table);
  const Host host(fake.raw());
  int runs = 0;
  cohort::sdk::LaneTask counting([&] { ++runs; }), failing([] { throw cohort::sdk::invalid_argument("no"); });
  const cohort::sdk::Lane lane = host.lane("aside");
  EXPECT_EQ(lane.submit(counting), 13u);
  EXPECT_EQ(lane.submit(counting), 13u);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(status_of([&] { lane.submit(failing); }), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(fake.take_failure(), "no");
  EXPECT_EQ(status_of([&] { host.lane("other"); }), COHORT_INVALID_ARGUMENT);
}

TEST(SdkLane, IsWaitedForForABoundedTime) {
  FakeHost fake;
  const cohort_lane_1 table = lane_table();
  fake.offer(COHORT_LANE_ID, &table);
  const cohort::sdk::Lane lane = Host(fake.raw()).default_lane();
  lane.wait(1);
  EXPECT_TRUE(lane.wait_for(13, 1));
  EXPECT_FALSE(lane.wait_for(1, 1));
  EXPECT_FALSE(lane.wait_for(1, -1));
  EXPECT_FALSE(lane.is_done(1));
  EXPECT_TRUE(lane.is_done(13));
}

TEST(SdkTensorView, GivesTypedElements) {
  std::vector<float> values{1, 2, 3};
  cohort_tensor tensor = float_tensor(values);
  tensor.data = &values[1];
  tensor.nbytes = 2 * sizeof(float);
  const auto elements = TensorView(tensor).span<float>();
  ASSERT_EQ(elements.size(), 2u);
  EXPECT_EQ(elements[0], 2.0f);
  elements[1] = 9;
  EXPECT_EQ(values[2], 9.0f);
}

TEST(SdkTensorView, RefusesWhatItCannotShowAndSaysWhy) {
  std::vector<float> values(3);
  std::string message;
  cohort_tensor tensor = float_tensor(values);
  EXPECT_EQ(status_of([&] { TensorView(tensor).span<double>(); }, &message), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(message, "tensor 'w' has elements of type float32, not float64");
  EXPECT_EQ(status_of([&] { TensorView(tensor).span<BFloat16>(); }), COHORT_INVALID_ARGUMENT);
  tensor.flags |= COHORT_TENSOR_READ_ONLY;
  EXPECT_EQ(status_of([&] { TensorView(tensor).span<float>(); }), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([&] { TensorView(tensor).span<const float>(); }), COHORT_OK);
  tensor.flags = 0;
  EXPECT_EQ(status_of([&] { TensorView(tensor).span<const float>(); }, &message), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(message, "tensor 'w' has gaps in memory");
  tensor = float_tensor(values);
  tensor.device_type = COHORT_DEVICE_CUDA;
  EXPECT_EQ(status_of([&] { TensorView(tensor).span<float>(); }, &message), COHORT_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("not in CPU memory"));
}

}  // namespace
