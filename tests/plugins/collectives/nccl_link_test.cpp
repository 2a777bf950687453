// One communicator of nccl, on its stand-in: which device its calls are on, and what it says of failures.
//
// Everything is on device 1, and only what a thread without a device does can reach device 0.
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "counters.hpp"
#include "fakedrv.h"
#include "link.hpp"
#include "variable.hpp"
#include "watch.hpp"

namespace {

using namespace cohort::nccl;
using namespace std::chrono_literals;
using cohort::test::Variable;
using testing::HasSubstr;

constexpr int kDevice = 1;

// Returns whether it becomes true; a test that waits in vain fails.
bool becomes_true(const std::function<bool()>& condition, std::chrono::milliseconds longest = 20s) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// Calls on a thread that has no device.
void elsewhere(const std::function<void()>& call) {
  std::thread(call).join();
}

cohort_status status_of(const std::function<void()>& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const cohort::sdk::Error& error) {
    if (text) *text = error.what();
    return error.status();
  }
  return COHORT_OK;
}

class NcclLink : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(fakedrv_set_device(kDevice), 0);
    ASSERT_EQ(fakedrv_create_stream(kDevice, &stream_), 0);
    ASSERT_EQ(fakedrv_alloc(stream_, sizeof(float), &memory_), 0);
    ASSERT_EQ(fakedrv_fill(stream_, memory_, 0, sizeof(float)), 0);
    connect(60s);
  }
  void TearDown() override {
    nccl_stand_in_hold(0);
    nccl_stand_in_capture(0);
    link_->abort();
    link_.reset();
    fakedrv_wait(stream_);
    EXPECT_EQ(fakedrv_free(memory_, nullptr), 0);
    EXPECT_EQ(fakedrv_destroy_stream(stream_), 0);
    EXPECT_EQ(nccl_stand_in_elsewhere(), 0) << "a thread on another device called";
    EXPECT_FALSE(nccl_stand_in_has_context(0)) << "a context that nobody needs";
  }

  // A group of one rank.
  void connect(std::chrono::nanoseconds timeout) {
    const Nccl nccl = open_nccl();
    around_ = std::make_shared<const Surroundings>(Surroundings{nccl, open_cuda(nccl), kDevice, timeout});
    ncclUniqueId id{};
    ASSERT_EQ(nccl.GetUniqueId(&id), ncclSuccess);
    link_ = std::make_shared<Link>(around_, "world", id, 0, 1);
  }
  void sum() {
    link_->enqueue("all_reduce", {stream_, COHORT_DEVICE_EXT, kDevice}, [this](ncclComm_t comm, cudaStream_t stream) {
      return around_->nccl.AllReduce(memory_, memory_, 1, ncclFloat32, ncclSum, comm, stream);
    });
  }
  cohort_status status(std::string* text = nullptr) const {
    return status_of([this] { link_->check(); }, text);
  }

  fakedrv_stream* stream_ = nullptr;
  void* memory_ = nullptr;
  std::shared_ptr<const Surroundings> around_;
  std::shared_ptr<Link> link_;
};

// Its first operation hangs until it is aborted.
class HangingNcclLink : public NcclLink {
 protected:
  void SetUp() override {
    NcclLink::SetUp();
    sum();
  }
  const Variable hang_{"NCCL_STANDIN_HANG", "0:0"};
};

TEST_F(HangingNcclLink, StaysOnItsDevice) {
  elsewhere([this] { link_->poll(); });
  elsewhere([this] { link_->abort(); });
  EXPECT_EQ(status(), COHORT_ABORTED);
}

TEST_F(NcclLink, ClosesOnItsDevice) {
  sum();
  ASSERT_EQ(fakedrv_wait(stream_), 0);
  elsewhere([this] { link_->close(); });
}

TEST_F(HangingNcclLink, IsWatchedFromItsDevice) {
  link_->abort();
  connect(500ms);
  sum();
  Watch watch(around_);
  watch.add(link_);
  EXPECT_TRUE(becomes_true([this] { return status() == COHORT_DEADLINE_EXCEEDED; }));
}

TEST_F(NcclLink, TellsAnErrorOfTheDevice) {
  sum();
  const Variable error("NCCL_STANDIN_EVENT_ERROR", "700");
  std::string text;
  EXPECT_EQ(status(&text), COHORT_INTERNAL);
  EXPECT_THAT(text, HasSubstr("all_reduce on 'world' failed on its device: cudaEventQuery failed: an illegal memory"));
}

TEST_F(HangingNcclLink, LeavesNoErrorToTheThread) {
  EXPECT_EQ(status(), COHORT_OK);
  EXPECT_EQ(nccl_stand_in_last_error(), 0);
}

TEST_F(HangingNcclLink, LeavesCapturesOfOthersWhole) {
  nccl_stand_in_capture(1);
  elsewhere([this] { link_->poll(); });
  EXPECT_EQ(status(), COHORT_OK);
  EXPECT_EQ(nccl_stand_in_broken_captures(), 0);
}

TEST_F(HangingNcclLink, TellsOfAnAbortAtOnce) {
  nccl_stand_in_hold(1);
  const auto aborted = std::async(std::launch::async, [this] { link_->abort(); });
  ASSERT_TRUE(becomes_true([] { return nccl_stand_in_held() == 1; }));
  auto told = std::async(std::launch::async, [this] { return status(); });
  EXPECT_EQ(told.wait_for(10s), std::future_status::ready) << "the caller waits for ncclCommAbort";
  const auto closed = std::async(std::launch::async, [this] { link_->close(); });
  EXPECT_EQ(closed.wait_for(50ms), std::future_status::timeout) << "closed while the communicator is in use";
  nccl_stand_in_hold(0);
  EXPECT_EQ(told.get(), COHORT_ABORTED);
}

TEST_F(HangingNcclLink, KeepsTheCommunicatorInClose) {
  nccl_stand_in_hold(1);
  const auto closed = std::async(std::launch::async, [this] { link_->close(); });
  ASSERT_TRUE(becomes_true([] { return nccl_stand_in_held() == 1; }));
  const auto aborted = std::async(std::launch::async, [this] { link_->abort(); });
  EXPECT_FALSE(becomes_true([] { return nccl_stand_in_held() == 2; }, 100ms)) << "aborted while a call has it";
  nccl_stand_in_hold(0);
}

// A sleep takes far longer than NCCL needs for an operation.
TEST_F(NcclLink, AsksManyTimesBeforeSleeping) {
  constexpr int kAsks = 40, kOperations = 50;
  const Variable asks("NCCL_STANDIN_POLLS", std::to_string(kAsks).c_str());
  const Variable no_delay("NCCL_STANDIN_DELAY_US", "0");
  const auto num_sleeps = [] {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw;
  };
  const long before = num_sleeps();
  for (int i = 0; i < kOperations; ++i) sum();
  EXPECT_LT(num_sleeps() - before, kAsks * kOperations / 4);
  ASSERT_EQ(fakedrv_wait(stream_), 0);
}

}  // namespace
