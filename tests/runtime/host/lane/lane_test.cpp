#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/lane.hpp>

namespace cohort::host {
namespace {

constexpr std::chrono::seconds kLong{120};

TEST(Lane, RunsWorkInTheOrderOfSubmission) {
  Lane lane("test", kLong);
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) lane.submit([&order, i] { order.push_back(i); });
  lane.drain();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Lane, RunsNestedWorkAtOnceOnItsOwnThread) {
  Lane lane("test", kLong);
  bool nested = false;
  lane.run([&] {
    EXPECT_TRUE(lane.is_current_thread());
    lane.run([&] { nested = true; });
    EXPECT_TRUE(nested);
  });
  EXPECT_FALSE(lane.is_current_thread());
}

TEST(Lane, NamesItsThread) {
  Lane lane("a long name of a lane", kLong);
  std::array<char, 16> name{};
  lane.run([&] { ::pthread_getname_np(::pthread_self(), name.data(), name.size()); });
  EXPECT_STREQ(name.data(), "lane a long nam");
}

TEST(Lane, IsDoneWithATaskThatIsSubmittedInTurn) {
  Lane lane("test", kLong), other("other", kLong);
  std::vector<int> order;  // unguarded: both lanes run one after the other
  for (int i = 0; i < 100; ++i) {
    for (Lane* const next : {&lane, &other}) next->submit_in_turn([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 200u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i / 2);
  EXPECT_EQ(lane.waits(), 0u);
  const Lane::Ticket failed = lane.submit_in_turn([] { throw UserError("no"); });
  EXPECT_THROW(lane.wait(failed), UserError);
}

TEST(Lane, RefusesAWaitForATicketThatItHasNotGiven) {
  Lane lane("test", kLong);
  const Lane::Ticket last = lane.submit([] {});
  lane.wait(last);
  EXPECT_THROW(lane.wait(last + 1), UserError);
  EXPECT_THROW(lane.wait_for(last + 1, kLong), UserError);
}

TEST(Lane, ThrowsWhatAWorkThrewAndDropsWhatComesAfter) {
  Lane lane("test", kLong);
  bool ran = false;
  lane.submit([] { throw UserError("no"); });
  const Lane::Ticket after = lane.submit([&] { ran = true; });
  EXPECT_THROW(lane.wait(after), UserError);
  EXPECT_THROW(lane.drain(), UserError);
  EXPECT_FALSE(ran);
}

TEST(Lane, IsWaitedForNoLongerThanAsked) {
  Lane lane("test", kLong);
  std::atomic<bool> may_end{false};
  const Lane::Ticket ticket = lane.submit([&] {
    while (!may_end) std::this_thread::yield();
  });
  EXPECT_FALSE(lane.wait_for(ticket, std::chrono::nanoseconds(0)));
  may_end = true;
  EXPECT_TRUE(lane.wait_for(ticket, kLong));
  const Lane::Ticket failing = lane.submit([] { throw UserError("no"); });
  EXPECT_THROW(lane.wait_for(failing, kLong), UserError);
}

TEST(Lane, CountsWaitsAlsoForWorkThatIsDone) {
  Lane lane("test", kLong);
  lane.run_here([] {});
  EXPECT_EQ(lane.waits(), 0u);
  const Lane::Ticket ticket = lane.submit([] {});
  lane.wait(ticket);
  lane.wait(ticket);
  lane.run([] {});
  EXPECT_EQ(lane.waits(), 3u);
}

TEST(Lane, IsTheCallingThreadWhileItRunsWorkHere) {
  Lane lane("test", kLong);
  std::vector<int> order;  // unguarded: the lane itself keeps its tasks apart
  for (int i = 0; i < 200; ++i) {
    lane.submit([&order, i] { order.push_back(3 * i); });
    lane.run_here([&] {
      EXPECT_TRUE(lane.is_current_thread());
      lane.submit([&order, i] { order.push_back(3 * i + 2); });
      lane.run([&order, i] { order.push_back(3 * i + 1); });
      EXPECT_FALSE(lane.is_idle());
    });
    EXPECT_FALSE(lane.is_current_thread());
  }
  lane.drain();
  EXPECT_TRUE(lane.is_idle());
  ASSERT_EQ(order.size(), 600u);
  for (int i = 0; i < 600; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Lane, IsOneThreadAtATimeThoughSeveralRunWorkHere) {
  Lane lane("test", kLong);
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) lane.run_here([&] { ++count; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 400);
}

TEST(Lane, EndsWithWorkThatThrowsHereAsWithAnyOther) {
  Lane lane("test", kLong);
  EXPECT_THROW(lane.run_here([] { throw UserError("no"); }), UserError);
  EXPECT_TRUE(lane.is_idle());
  EXPECT_THROW(lane.drain(), UserError);
  bool ran = false;
  EXPECT_THROW(lane.run_here([&] { ran = true; }), UserError);
  EXPECT_FALSE(ran);
}

TEST(Lane, GivesUpAWaitThatNeverEnds) {
  Lane lane("test", std::chrono::milliseconds(20));
  std::atomic<bool> release{false};
  const Lane::Ticket stuck = lane.submit([&] { release.wait(false); });
  EXPECT_THROW(lane.wait(stuck), PeerFailed);
  release = true;
  release.notify_all();
}

struct DeviceLost : std::runtime_error {
  DeviceLost() : std::runtime_error("the device is lost") {}
};

/// Two devices of which the second one fails in calls of one kind.
class FailingPort final : public DevicePort {
 public:
  enum Call { kNone, kSetCurrent, kRecord, kOrder };
  std::atomic<Call> fails{kNone};

  FailingPort() { stream_of(0) = stream_of(1) = nullptr; }

  std::span<const Device> devices() const override { return kDevices; }
  cohort_stream current(Device device) override { return {stream_of(device.index), device.type, device.index}; }
  void set_current(const cohort_stream& stream) override {
    check(kSetCurrent, stream);
    stream_of(stream.device_index) = stream.native;
  }
  cohort_stream make_stream(Device device) override { return {&made_.at(num_made_++), device.type, device.index}; }
  std::shared_ptr<DeviceEvent> record(const cohort_stream& stream) override {
    check(kRecord, stream);
    return std::make_shared<Event>();
  }
  void order(const cohort_stream& stream, DeviceEvent&) override { check(kOrder, stream); }

  void* alloc(uint64_t, const cohort_stream&) override { return nullptr; }
  void release(void*, const cohort_stream&) override {}
  void wait(Device) override {}
  void fill_with_zeros(void*, uint64_t, const cohort_stream&) override {}
  void copy_from_host(void*, const void*, uint64_t, const cohort_stream&) override {}
  void copy_to_host(void*, const void*, uint64_t, const cohort_stream&) override {}

  /// Returns whether the calling thread is on none of the streams that were made for lanes.
  static bool is_on_own_streams() { return !stream_of(0) && !stream_of(1); }

 private:
  struct Event final : DeviceEvent {
    bool is_done() override { return true; }
  };
  static constexpr std::array<Device, 2> kDevices{{{COHORT_DEVICE_EXT, 0}, {COHORT_DEVICE_EXT, 1}}};
  std::array<char, 8> made_{};
  size_t num_made_ = 0;

  static void*& stream_of(int32_t index) {
    static thread_local std::array<void*, 2> streams{};
    return streams.at(static_cast<size_t>(index));
  }
  void check(Call call, const cohort_stream& stream) const {
    if (fails == call && stream.device_index == 1) throw DeviceLost();
  }
};

void expect_ended_by_device(Lane& lane, FailingPort& port) {
  EXPECT_TRUE(FailingPort::is_on_own_streams());
  lane.settle();  // a wait ends with the failure, at times before its thread has dropped what is queued
  EXPECT_TRUE(lane.is_idle());
  port.fails = FailingPort::kNone;
  bool ran = false;
  EXPECT_THROW(lane.run_here([&] { ran = true; }), DeviceLost);
  EXPECT_THROW(lane.run([&] { ran = true; }), DeviceLost);
  EXPECT_THROW(lane.wait_for(lane.submit([&] { ran = true; }), kLong), DeviceLost);
  EXPECT_THROW(lane.drain(), DeviceLost);
  EXPECT_FALSE(ran);
}

TEST(LaneOfAFailingDevice, ThrowsItFromAWaitForItsThread) {
  for (const auto call : {FailingPort::kSetCurrent, FailingPort::kRecord, FailingPort::kOrder}) {
    FailingPort port;
    if (call == FailingPort::kSetCurrent) port.fails = call;  // from the start of the lane's thread on
    Lane lane("test", kLong, nullptr, RankDevices(&port));
    std::atomic<bool> may_go_on{false};
    if (call == FailingPort::kOrder) {
      lane.submit([&] { may_go_on.wait(false); });
    }
    const Lane::Ticket ticket = lane.submit([&] { port.fails = call; });
    if (call == FailingPort::kOrder) port.fails = call;
    may_go_on = true;
    may_go_on.notify_all();
    EXPECT_THROW(lane.wait(ticket), DeviceLost);
    expect_ended_by_device(lane, port);
  }
}

TEST(LaneOfAFailingDevice, ThrowsItFromTheThreadThatRunsWorkHere) {
  for (const auto call : {FailingPort::kSetCurrent, FailingPort::kRecord, FailingPort::kOrder}) {
    FailingPort port;
    Lane lane("test", kLong, nullptr, RankDevices(&port));
    lane.run([] {});  // its thread has begun
    if (call != FailingPort::kRecord) port.fails = call;
    EXPECT_THROW(lane.run_here([&] { port.fails = call; }), DeviceLost);
    expect_ended_by_device(lane, port);
  }
}

TEST(LaneOfAFailingDevice, ThrowsFirstWhatTheWorkThrew) {
  for (const auto call : {FailingPort::kSetCurrent, FailingPort::kRecord, FailingPort::kOrder}) {
    FailingPort port;
    Lane lane("test", kLong, nullptr, RankDevices(&port));
    lane.run([] {});
    const auto fail = [&] {
      port.fails = call;
      throw UserError("no");
    };
    EXPECT_THROW(lane.run_here(fail), UserError);
    EXPECT_THROW(lane.drain(), UserError);
  }
}

/// A recorder whose training thread is the one that makes this.
struct Recorded {
  Recorded() { recorder().end(&comm, recorder().begin(&comm, {.operation = "barrier"}), COHORT_OK); }
  FlightRecorder& recorder() { return host.recorder(); }
  bool is_at_rest() { return recorder().standing().at_rest; }

  static LogSettings quiet() {
    LogSettings settings;
    settings.level = LogLevel::kOff;
    return settings;
  }

  Log log{quiet()};
  HostObject host{log};
  cohort_comm comm{};
};

TEST(LaneAtRest, EndsWithTheSubmissionOfWork) {
  Recorded recorded;
  Lane lane("test", kLong, &recorded.host);
  const FlightRecorder::Rest rest(&recorded.recorder());
  for (int i = 0; i < 200; ++i) {
    while (!recorded.is_at_rest()) std::this_thread::yield();
    std::atomic<bool> may_end{false};
    lane.submit([&] { may_end.wait(false); });
    const bool is_at_rest = recorded.is_at_rest();
    may_end = true;
    may_end.notify_all();
    lane.drain();
    ASSERT_FALSE(is_at_rest) << "there is a task";
  }
}

TEST(LaneAtRest, EndsForAWaitingThreadWithTheWork) {
  Recorded recorded;
  Lane lane("test", kLong, &recorded.host);
  std::atomic<bool> over{false};
  std::atomic<int> times_at_rest{0};
  std::thread observer([&] {
    while (!over) times_at_rest += recorded.is_at_rest();
  });
  for (int i = 0; i < 2000; ++i) lane.run([] {});
  over = true;
  observer.join();
  EXPECT_EQ(times_at_rest, 0) << "either the lane or this thread can go on";
}

TEST(LaneAtRest, IsNotAThreadThatWaitsForABoundedTime) {
  Recorded recorded;
  Lane lane("test", kLong, &recorded.host);
  std::atomic<bool> may_end{false}, over{false};
  std::atomic<int> times_at_rest{0};
  const Lane::Ticket ticket = lane.submit([&] {
    const uint64_t number = recorded.recorder().begin(&recorded.comm, {.operation = "barrier"});
    may_end.wait(false);
    recorded.recorder().end(&recorded.comm, number, COHORT_OK);
  });
  std::thread observer([&] {
    while (!over) times_at_rest += recorded.is_at_rest();
  });
  EXPECT_FALSE(lane.wait_for(ticket, std::chrono::milliseconds(50)));
  over = true;
  observer.join();
  may_end = true;
  may_end.notify_all();
  lane.drain();
  EXPECT_EQ(times_at_rest, 0);
}

}  // namespace
}  // namespace cohort::host
