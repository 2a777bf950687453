// One communicator of nccl, on its stand-in: which device its calls are on, and what it says of failures.
//
// Everything is on device 1, and only what a thread without a device does can reach device 0.
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
#include "scratch.hpp"
#include "watch.hpp"

namespace {

using namespace cohort::nccl;
using namespace std::chrono_literals;
using nccl_stand_in::Setting;
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

  void connect(std::chrono::nanoseconds timeout, const std::vector<Peer>& peers = {{0, "rank 0"}}) {
    const Nccl nccl = open_nccl();
    around_ = std::make_shared<const Surroundings>(Surroundings{nccl, open_cuda(nccl), kDevice, timeout, peers});
    link_ = made_link();
  }
  // A group of one rank.
  std::shared_ptr<Link> made_link() {
    ncclUniqueId id{};
    EXPECT_EQ(around_->nccl.GetUniqueId(&id), ncclSuccess);
    return std::make_shared<Link>(around_, "world", id, 0, 1);
  }
  void sum() { sum_on(*link_); }
  void sum_on(Link& link) {
    link.enqueue("all_reduce", {stream_, COHORT_DEVICE_EXT, kDevice}, [this](ncclComm_t comm, cudaStream_t stream) {
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
  const Setting hang_{"NCCL_STANDIN_HANG", "0:0"};
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

// As NCCL's, the abort of one link may wait for a kernel of the other.
TEST_F(HangingNcclLink, IsAbortedBesideOthers) {
  link_->abort();
  connect(2s);
  const std::shared_ptr<Link> other = made_link();
  nccl_stand_in_hold(1);
  sum();
  sum_on(*other);
  Watch watch(around_);
  watch.add(link_);
  watch.add(other);
  EXPECT_TRUE(becomes_true([] { return nccl_stand_in_held() == 2; })) << "one abort waits for the other";
  nccl_stand_in_hold(0);
}

TEST_F(HangingNcclLink, NamesARankThatIsKilled) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::pause();
  }
  link_->abort();
  connect(60s, {{static_cast<int>(pid), "rank 3 (pid 4711)"}});
  sum();
  Watch watch(around_);
  watch.add(link_);
  EXPECT_FALSE(becomes_true([this] { return status() != COHORT_OK; }, 50ms));
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  std::string text;
  EXPECT_TRUE(becomes_true([&] { return status(&text) == COHORT_UNAVAILABLE; }, 10s));
  EXPECT_EQ(text, "rank 3 (pid 4711) is gone: its process ended before all_reduce on 'world' did");
  ::waitpid(pid, nullptr, 0);
}

TEST_F(NcclLink, IsWholeThoughAnIdleRankEnds) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  connect(60s, {{static_cast<int>(pid), "rank 3"}});
  sum();
  ASSERT_EQ(fakedrv_wait(stream_), 0);
  Watch watch(around_);
  watch.add(link_);
  EXPECT_FALSE(becomes_true([this] { return status() != COHORT_OK; }, 1500ms));
  ::waitpid(pid, nullptr, 0);
}

TEST_F(NcclLink, TellsAnErrorOfTheDevice) {
  sum();
  const Setting error("NCCL_STANDIN_EVENT_ERROR", "700");
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
  const Setting asks("NCCL_STANDIN_POLLS", std::to_string(kAsks).c_str());
  const Setting no_delay("NCCL_STANDIN_DELAY_US", "0");
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

TEST_F(NcclLink, LeavesNoErrorOfADeviceItCannotSet) {
  { const OnDevice nowhere(around_->cuda, FAKEDRV_DEVICES, OnDevice::Unless::kGoOn); }
  EXPECT_EQ(nccl_stand_in_last_error(), 0);
}

TEST_F(NcclLink, AdvisesANewDriver) {
  Nccl nccl = open_nccl();
  nccl.library = ::dlopen(COHORT_OLD_DRIVER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(nccl.library) << ::dlerror();
  EXPECT_THAT([&] { open_cuda(nccl); },
              testing::ThrowsMessage<cohort::sdk::Error>(HasSubstr("; update the driver of this machine's GPUs")));
  std::string text;
  const auto refuse = [&] { around_->cuda.check(cudaErrorInsufficientDriver, "cudaSetDevice"); };
  EXPECT_EQ(status_of(refuse, &text), COHORT_FAILED_PRECONDITION);
  EXPECT_THAT(text, HasSubstr("; update the driver, or choose --accelerator=cpu"));
}

class NcclScratch : public NcclLink {
 protected:
  void borrow(ScratchPool& pool, uint64_t nbytes, int times) {
    for (int i = 0; i < times; ++i) const Scratch scratch(pool, nbytes, {stream_, COHORT_DEVICE_EXT, kDevice});
  }
};

TEST_F(NcclScratch, ShrinksToWhatIsNeeded) {
  constexpr uint64_t kMiB = 1 << 20;
  ScratchPool pool(around_);
  borrow(pool, 8 * kMiB, 1);
  borrow(pool, kMiB, 100);
  EXPECT_GE(nccl_stand_in_kept(), 8 * kMiB);
  borrow(pool, kMiB, 600);
  EXPECT_LT(nccl_stand_in_kept(), 4 * kMiB);
  borrow(pool, 8 * kMiB, 300);
  EXPECT_GE(nccl_stand_in_kept(), 8 * kMiB);
}

TEST_F(NcclScratch, KeepsNoPoolWithoutItsSettings) {
  ScratchPool pool(around_);
  const Setting error("NCCL_STANDIN_POOL_ERROR", "1");
  EXPECT_EQ(status_of([&] { borrow(pool, 1, 1); }), COHORT_INTERNAL);
  EXPECT_EQ(nccl_stand_in_pools(), 0);
}

}  // namespace
