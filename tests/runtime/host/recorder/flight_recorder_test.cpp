#include <cohort/host/flight_recorder.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <string>
#include <thread>

namespace cohort::host {
namespace {

OperationRecord all_reduce(uint64_t count) {
  OperationRecord record;
  record.operation = "all_reduce";
  record.dtype = COHORT_FLOAT32;
  record.count = count;
  return record;
}

FlightRecorder::Purpose purpose(const char* text) {
  return std::make_shared<const std::string>(text);
}

TEST(FlightRecorder, NumbersTheOperationsOfEachCommunicatorFromOne) {
  FlightRecorder recorder;
  cohort_comm world{}, control{};
  recorder.name(&world, "default/world");
  recorder.name(&control, "control");
  recorder.end(&world, recorder.begin(&world, all_reduce(5)), COHORT_OK);
  recorder.end(&control, recorder.begin(&control, all_reduce(1)), COHORT_OK);
  EXPECT_EQ(recorder.begin(&world, all_reduce(7)), 2u);
  const auto flights = recorder.flights();
  ASSERT_EQ(flights.size(), 2u);
  EXPECT_EQ(flights[0].communicator, "default/world");
  ASSERT_EQ(flights[0].operations.size(), 2u);
  EXPECT_EQ(flights[0].operations[1].number, 2u);
  EXPECT_EQ(flights[0].operations[1].count, 7u);
  ASSERT_EQ(flights[1].operations.size(), 1u);
  EXPECT_EQ(flights[1].operations[0].number, 1u);
}

TEST(FlightRecorder, ShowsAnOperationThatHangsAsRunning) {
  FlightRecorder recorder;
  cohort_comm world{};
  recorder.begin(&world, all_reduce(5));
  const auto running = recorder.flights()[0].operations[0];
  EXPECT_EQ(running.ended_ns, 0);
  EXPECT_GT(running.begun_ns, 0);
  recorder.end(&world, running.number, COHORT_UNAVAILABLE, {2, 3});
  const auto ended = recorder.flights()[0].operations[0];
  EXPECT_EQ(ended.peers, (std::vector{2, 3}));
  EXPECT_GE(ended.ended_ns, ended.begun_ns);
  EXPECT_EQ(ended.status, COHORT_UNAVAILABLE);
}

TEST(FlightRecorder, KeepsTheLastOnesInOrder) {
  FlightRecorder recorder;
  cohort_comm world{};
  constexpr uint64_t kMany = 3 * FlightRecorder::kKept + 5;
  for (uint64_t i = 1; i <= kMany; ++i) recorder.end(&world, recorder.begin(&world, all_reduce(i)), COHORT_OK);
  const auto operations = recorder.flights()[0].operations;
  ASSERT_EQ(operations.size(), FlightRecorder::kKept);
  for (uint64_t i = 0; i < operations.size(); ++i) {
    EXPECT_EQ(operations[i].number, kMany - operations.size() + 1 + i);
    EXPECT_EQ(operations[i].count, operations[i].number);
  }
}

TEST(FlightRecorder, GivesAPurposeToAllCommunicatorsOfALane) {
  FlightRecorder recorder;
  cohort_comm world{}, node{}, control{};
  recorder.name(&world, "default/world");
  recorder.name(&node, "default/node 0");
  recorder.name(&control, "control");
  recorder.set_purpose(&control, purpose("barrier"));
  recorder.set_purpose(&world, purpose("bucket 1"));
  recorder.begin(&node, all_reduce(1));
  recorder.set_purpose(&world, purpose("bucket 2"));
  recorder.begin(&world, all_reduce(1));
  recorder.begin(&control, all_reduce(1));
  const auto flights = recorder.flights();
  EXPECT_EQ(*flights[0].operations[0].purpose, "bucket 2");
  EXPECT_EQ(*flights[1].operations[0].purpose, "bucket 1");
  EXPECT_EQ(*flights[2].operations[0].purpose, "barrier");
}

struct Witness final : FlightObserver {
  std::vector<std::pair<std::string, OperationRecord>> operations;
  std::vector<BucketRecord> buckets;
  void operation_ended(const std::string& communicator, const OperationRecord& record) override {
    operations.emplace_back(communicator, record);
  }
  void bucket_reduced(const BucketRecord& record) override { buckets.push_back(record); }
};

TEST(FlightObserver, SeesWhatBeginsWhileItObserves) {
  FlightRecorder recorder;
  cohort_comm world{};
  recorder.name(&world, "default/world");
  Witness witness;
  const uint64_t before = recorder.begin(&world, all_reduce(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a tick of the clock that is read without an observer
  recorder.observe(&witness);
  recorder.end(&world, before, COHORT_OK);
  {
    const FlightRecorder::Reduction reduction(recorder, 2, 96, purpose("bucket 2"));
    recorder.end(&world, recorder.begin(&world, all_reduce(24)), COHORT_OK);
  }
  recorder.observe(nullptr);
  recorder.end(&world, recorder.begin(&world, all_reduce(3)), COHORT_OK);
  { const FlightRecorder::Reduction reduction(recorder, 3, 8, purpose("bucket 3")); }
  ASSERT_EQ(witness.operations.size(), 1u);
  const auto& [communicator, operation] = witness.operations.front();
  EXPECT_EQ(communicator, "default/world");
  EXPECT_EQ(operation.count, 24u);
  ASSERT_EQ(witness.buckets.size(), 1u);
  const BucketRecord& bucket = witness.buckets.front();
  EXPECT_EQ(bucket.index, 2u);
  EXPECT_EQ(bucket.nbytes, 96u);
  EXPECT_EQ(*bucket.purpose, "bucket 2");
  EXPECT_LE(bucket.begun_ns, operation.begun_ns);
  EXPECT_LE(operation.begun_ns, operation.ended_ns);
  EXPECT_LE(operation.ended_ns, bucket.ended_ns);
  EXPECT_GT(bucket.ended_ns, bucket.begun_ns) << "the clock is precise";
}

TEST(AtRest, IsARankWhoseThreadsAllWait) {
  FlightRecorder recorder;
  const cohort_comm comm{};
  EXPECT_FALSE(recorder.standing().at_rest);
  const uint64_t number = recorder.begin(&comm, {.operation = "barrier"});
  const std::jthread lane([] {});
  recorder.thread_begins(lane.get_id());
  EXPECT_FALSE(recorder.standing().at_rest) << "a lane is at work";
  {
    const FlightRecorder::Rest rest(&recorder, lane.get_id());
    EXPECT_TRUE(recorder.standing().at_rest);
  }
  recorder.end(&comm, number, COHORT_OK);
  EXPECT_EQ(recorder.standing().moves, 2u);
  EXPECT_TRUE(recorder.standing().running.empty());
}

TEST(AtRest, CountsAnOperationInsideAnotherForOneThread) {
  FlightRecorder recorder;
  const cohort_comm outer{}, inner{};
  recorder.begin(&outer, {.operation = "barrier"});
  recorder.begin(&inner, {.operation = "barrier"});
  const std::jthread lane([] {});
  recorder.thread_begins(lane.get_id());
  EXPECT_FALSE(recorder.standing().at_rest) << "the lane is at work";
}

TEST(AtRest, IsNotARankOfWhichOnlyAnotherThreadIsInAnOperation) {
  FlightRecorder recorder;
  const cohort_comm comm{};
  recorder.end(&comm, recorder.begin(&comm, {.operation = "barrier"}), COHORT_OK);
  std::jthread([&] { recorder.begin(&comm, {.operation = "barrier"}); }).join();
  EXPECT_FALSE(recorder.standing().at_rest) << "this thread computes";
}

TEST(FlightRecorder, IsReadWhileOtherThreadsRecord) {
  FlightRecorder recorder;
  cohort_comm world{}, control{};
  std::atomic<bool> stop{false};
  const auto record = [&](const cohort_comm* comm) {
    while (!stop) {
      recorder.set_purpose(comm, purpose("work"));
      recorder.end(comm, recorder.begin(comm, all_reduce(3)), COHORT_OK);
    }
  };
  std::thread lane(record, &world), main(record, &control);
  for (int i = 0; i < 200; ++i) {
    for (const auto& flight : recorder.flights()) {
      for (const OperationRecord& one : flight.operations) EXPECT_EQ(one.count, 3u);
    }
  }
  stop = true;
  lane.join();
  main.join();
}

}  // namespace
}  // namespace cohort::host
