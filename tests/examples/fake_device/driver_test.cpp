// The driver of the fake device, by its C interface alone.
#include <array>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "driver.hpp"

namespace {

using testing::Each;
using testing::HasSubstr;

using fake::FakeDevice;
using fake::kBytes;

// Before the driver reads it.
[[maybe_unused]] const int kSmallDevice = ::setenv("FAKE_DEVICE_MIB", "64", /*overwrite=*/1);

INSTANTIATE_TEST_SUITE_P(Work, FakeDevice, testing::Bool(), fake::name_of_mode);

TEST_P(FakeDevice, CopiesInTheOrderOfAStream) {
  char* const memory = alloc(first_);
  EXPECT_EQ(fakedrv_device_of(memory), 0);
  std::vector<char> given(kBytes, 7);
  EXPECT_DONE(fakedrv_copy(first_, memory, given.data(), kBytes));
  given.assign(kBytes, 8);  // was read before the call returned
  EXPECT_THAT(bytes_of(first_, memory), Each(7));
  EXPECT_DONE(fakedrv_fill(first_, memory, 9, kBytes));
  EXPECT_THAT(bytes_of(first_, memory), Each(9));
  EXPECT_DONE(fakedrv_free(memory, nullptr));
}

TEST_P(FakeDevice, NamesBothAccessesThatNothingOrders) {
  char *const from = alloc(first_), *const to = alloc(second_);
  EXPECT_DONE(fakedrv_fill(first_, from, 1, kBytes));
  ASSERT_NE(fakedrv_copy(second_, to, from + 8, 8), 0);
  const std::string one = std::to_string(fakedrv_stream_number(first_)),
                    two = std::to_string(fakedrv_stream_number(second_));
  EXPECT_THAT(fakedrv_error(), testing::StrEq("copy on stream " + two + " reads what fill on stream " + one +
                                              " writes, and nothing orders the two"));
  order(second_, first_);
  EXPECT_DONE(fakedrv_copy(second_, to, from + 8, 8));
  ASSERT_NE(fakedrv_fill(first_, from, 2, 16), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("fill on stream " + one + " writes what copy on stream " + two + " reads"));
  EXPECT_DONE(fakedrv_fill(first_, from + 16, 2, 16)) << "other bytes";
  EXPECT_DONE(fakedrv_wait(second_));
  EXPECT_DONE(fakedrv_fill(first_, from, 2, 16)) << "the host has waited";
  for (char* const memory : {from, to}) EXPECT_DONE(fakedrv_free(memory, nullptr));
}

TEST_P(FakeDevice, JudgesWhatFollowsARefusedAccess) {
  char* const memory = alloc(first_);
  EXPECT_DONE(fakedrv_fill(first_, memory, 1, kBytes));
  for (int time = 0; time < 2; ++time) {
    ASSERT_NE(fakedrv_fill(second_, memory, 2, kBytes), 0) << "the first fill is not ordered before it, as ever";
    EXPECT_THAT(fakedrv_error(),
                HasSubstr("writes what fill on stream " + std::to_string(fakedrv_stream_number(first_)) + " writes"));
  }
  // What the second stream does from now on is not ordered before the first one.
  char* const own = alloc(second_);
  order(first_, second_);
  EXPECT_DONE(fakedrv_fill(second_, own, 3, kBytes));
  char* const copy = alloc(first_);
  ASSERT_NE(fakedrv_copy(first_, copy, own, kBytes), 0) << "an event before the fill was taken for one behind it";
  EXPECT_THAT(fakedrv_error(), HasSubstr("reads what fill on stream"));
  order(first_, second_);
  EXPECT_THAT(bytes_of(first_, own), Each(3));
  for (char* const freed : {memory, copy}) EXPECT_DONE(fakedrv_free(freed, nullptr));
  order(second_, first_);
  EXPECT_DONE(fakedrv_free(own, nullptr));
}

TEST_P(FakeDevice, LetsTwoStreamsReadTheSameBytes) {
  char* const memory = alloc(first_);
  EXPECT_DONE(fakedrv_fill(first_, memory, 1, kBytes));
  EXPECT_DONE(fakedrv_wait(first_));
  char *const one = alloc(first_), *const two = alloc(second_);
  EXPECT_DONE(fakedrv_copy(first_, one, memory, kBytes));
  EXPECT_DONE(fakedrv_copy(second_, two, memory, kBytes));
  EXPECT_THAT(bytes_of(second_, two), Each(1));
  EXPECT_DONE(fakedrv_wait(first_));
  for (char* const freed : {memory, one, two}) EXPECT_DONE(fakedrv_free(freed, nullptr));
}

TEST_P(FakeDevice, GivesFreedMemoryToItsStreamFilledWithOnes) {
  char* const memory = alloc(first_);
  EXPECT_DONE(fakedrv_fill(first_, memory, 1, kBytes));
  EXPECT_DONE(fakedrv_free(memory, nullptr));
  ASSERT_NE(fakedrv_fill(first_, memory, 1, kBytes), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("not allocated"));
  EXPECT_NE(alloc(second_), memory);
  char* const again = alloc(first_);
  EXPECT_EQ(again, memory);
  EXPECT_THAT(bytes_of(first_, again), Each(static_cast<char>(0xff)));
}

TEST_P(FakeDevice, NamesWhoMayStillUseFreedMemory) {
  char *const memory = alloc(first_), *const to = alloc(second_), *const noted = alloc(first_);
  order(second_, first_);
  EXPECT_DONE(fakedrv_copy(second_, to, memory, kBytes));
  ASSERT_NE(fakedrv_free(memory, nullptr), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("free on stream " + std::to_string(fakedrv_stream_number(first_)) +
                                         " writes what copy on stream"));
  EXPECT_DONE(fakedrv_used_on(noted, second_));
  EXPECT_DONE(fakedrv_copy(second_, to, noted, kBytes));
  EXPECT_DONE(fakedrv_free(noted, nullptr));
}

TEST_P(FakeDevice, LeavesNoTraceOfARefusedLaunch) {
  char *const from = alloc(first_), *const to = alloc(second_);
  EXPECT_DONE(fakedrv_fill(first_, from, 1, kBytes));
  ASSERT_NE(fakedrv_copy(second_, to, from, kBytes), 0);
  EXPECT_DONE(fakedrv_fill(first_, to, 1, kBytes)) << "nothing was copied there";
  EXPECT_DONE(fakedrv_wait(first_));
  EXPECT_DONE(fakedrv_wait(second_));  // covers nothing that comes
  EXPECT_DONE(fakedrv_fill(second_, to + 8, 1, 8));
  ASSERT_NE(fakedrv_fill(first_, to + 8, 1, 8), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("writes what fill on stream"));
}

TEST_P(FakeDevice, RefusesMemoryThatWorkCannotUse) {
  char here[8] = {};
  const fakedrv_access unpinned{here, sizeof here, 0, 0};
  const auto nothing = [](void*) { return 0; };
  ASSERT_NE(fakedrv_launch(first_, "read", &unpinned, 1, nothing, nullptr, nullptr), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("not pinned"));
  char* const memory = alloc(first_);
  const fakedrv_access beyond{memory + kBytes - 8, 16, 0, 0};
  ASSERT_NE(fakedrv_launch(first_, "read", &beyond, 1, nothing, nullptr, nullptr), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("beyond the end"));
  const fakedrv_access whole{memory, kBytes, 0, 0};
  ASSERT_NE(fakedrv_launch(fakedrv_default_stream(1), "read", &whole, 1, nothing, nullptr, nullptr), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("of device 1, was given memory of device 0"));
}

TEST_P(FakeDevice, KeepsTheFailureOfAWorkForTheNextWait) {
  const auto fails = [](void*) { return fakedrv_fail("index 7 of 5"); };
  EXPECT_DONE(fakedrv_launch(first_, "gather", nullptr, 0, fails, nullptr, nullptr));
  EXPECT_NE(fakedrv_wait(first_), 0);
  EXPECT_STREQ(fakedrv_error(), "gather: index 7 of 5");
  EXPECT_DONE(fakedrv_wait(first_));
}

TEST_P(FakeDevice, HasACurrentStreamForEachThread) {
  fakedrv_stream* const before = fakedrv_exchange_stream(first_);
  EXPECT_EQ(before, fakedrv_default_stream(0));
  EXPECT_EQ(fakedrv_current_stream(0), first_);
  EXPECT_EQ(fakedrv_current_stream(1), fakedrv_default_stream(1));
  std::thread([] { EXPECT_EQ(fakedrv_current_stream(0), fakedrv_default_stream(0)); }).join();
  fakedrv_exchange_stream(before);
}

TEST_P(FakeDevice, HasACurrentDeviceForEachThread) {
  EXPECT_EQ(fakedrv_current_device(), 0);
  EXPECT_DONE(fakedrv_set_device(1));
  EXPECT_EQ(fakedrv_current_device(), 1);
  std::thread([] { EXPECT_EQ(fakedrv_current_device(), 0); }).join();
  ASSERT_NE(fakedrv_set_device(FAKEDRV_DEVICES), 0);
  EXPECT_STREQ(fakedrv_error(), "there is no device 4");
  EXPECT_DONE(fakedrv_set_device(0));
}

TEST_P(FakeDevice, FindsAStreamByItsNumber) {
  EXPECT_EQ(fakedrv_find_stream(fakedrv_stream_number(second_)), second_);
  EXPECT_EQ(fakedrv_find_stream(-1), nullptr);
  EXPECT_EQ(fakedrv_find_stream(1 << 20), nullptr);
}

TEST_P(FakeDevice, RunsAtOnceWhatTheHostNeedsAndOrdersNothing) {
  char *const memory = alloc(first_), *const to = alloc(second_);
  EXPECT_DONE(fakedrv_fill(first_, memory, 7, kBytes));
  char seen = 0;
  const auto look = [](void* arg) {
    const auto& [from, result] = *static_cast<std::pair<char*, char*>*>(arg);
    *result = *static_cast<char*>(fakedrv_contents(from));
    return 0;
  };
  std::pair<char*, char*> places{memory, &seen};
  const fakedrv_access reads{memory, kBytes, 0, 0};
  EXPECT_DONE(fakedrv_call(first_, "look", &reads, 1, look, &places));
  EXPECT_EQ(seen, 7);
  ASSERT_NE(fakedrv_copy(second_, to, memory, kBytes), 0) << "nobody has waited for the fill";
  EXPECT_THAT(fakedrv_error(), HasSubstr("reads what fill on stream"));
  const auto fails = [](void*) { return fakedrv_fail("no"); };
  ASSERT_NE(fakedrv_call(first_, "call", nullptr, 0, fails, nullptr), 0);
  EXPECT_STREQ(fakedrv_error(), "call: no");
}

TEST_P(FakeDevice, LeavesTheFailureOfAReleaseForTheNextWait) {
  char *const memory = alloc(first_), *const to = alloc(second_);
  order(second_, first_);
  EXPECT_DONE(fakedrv_copy(second_, to, memory, kBytes));
  fakedrv_release(memory);
  ASSERT_NE(fakedrv_wait(first_), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("free on stream"));
  EXPECT_EQ(alloc(first_), memory) << "is free all the same";
}

TEST_P(FakeDevice, CountsWhatIsAllocated) {
  const uint64_t before = fakedrv_allocated(0);
  char* const memory = alloc(first_);
  EXPECT_EQ(fakedrv_allocated(0), before + kBytes);
  EXPECT_DONE(fakedrv_free(memory, nullptr));
  EXPECT_EQ(fakedrv_allocated(0), before);
  EXPECT_GT(fakedrv_capacity(0), before);
}

TEST_P(FakeDevice, JoinsFreeMemoryWhenItEnds) {
  constexpr int kDevice = FAKEDRV_DEVICES - 1;  // which no other test has allocated on
  fakedrv_stream *const one = fakedrv_default_stream(kDevice), *other = nullptr;
  EXPECT_DONE(fakedrv_create_stream(kDevice, &other));
  const uint64_t half = fakedrv_capacity(kDevice) / 2;
  void *first = nullptr, *second = nullptr, *larger = nullptr;
  EXPECT_DONE(fakedrv_alloc(one, half, &first));
  ASSERT_NE(fakedrv_alloc(other, half + 1, &larger), 0) << "it is in use";
  EXPECT_DONE(fakedrv_alloc(one, half, &second));
  EXPECT_DONE(fakedrv_fill(one, first, 1, half));
  for (void* const memory : {first, second}) EXPECT_DONE(fakedrv_free(memory, nullptr));
  EXPECT_DONE(fakedrv_alloc(other, half + 1, &larger));
  EXPECT_DONE(fakedrv_alloc(one, kBytes, &first)) << "of the rest";
  EXPECT_DONE(fakedrv_fill(other, larger, 2, half + 1)) << "the driver has waited for the other stream";
  for (void* const memory : {first, larger}) EXPECT_DONE(fakedrv_free(memory, nullptr));
  EXPECT_DONE(fakedrv_destroy_stream(other));
}

TEST_P(FakeDevice, RunsStreamsOfManyThreadsThatWaitForEachOther) {
  constexpr int kRounds = 300;
  char* const memory = alloc(first_);
  const auto add = [](void* arg) {
    auto* const count = static_cast<int*>(fakedrv_contents(arg));
    ++*count;
    return 0;
  };
  EXPECT_DONE(fakedrv_fill(first_, memory, 0, kBytes));
  for (int round = 0; round < kRounds; ++round) {
    const std::array<fakedrv_access, 2> both{{{memory, 4, 0, 0}, {memory, 4, 1, 0}}};
    fakedrv_stream *const now = round % 2 ? first_ : second_, *const other = round % 2 ? second_ : first_;
    order(now, other);
    EXPECT_DONE(fakedrv_launch(now, "add", both.data(), 2, add, memory, nullptr));
  }
  std::thread helper([this] { EXPECT_DONE(fakedrv_wait(second_)); });
  EXPECT_DONE(fakedrv_wait(first_));
  helper.join();
  int count = 0;
  EXPECT_DONE(fakedrv_copy(first_, &count, memory, sizeof count));
  EXPECT_EQ(count, kRounds);
}

class LazyDevice : public FakeDevice {};
INSTANTIATE_TEST_SUITE_P(Work, LazyDevice, testing::Values(false), [](const auto&) { return "Lazy"; });

TEST_P(LazyDevice, RunsNothingBeforeSomebodyWaits) {
  char* const memory = alloc(first_);
  void* pinned = nullptr;
  EXPECT_DONE(fakedrv_alloc_pinned(kBytes, &pinned));
  std::memset(pinned, 1, kBytes);
  EXPECT_DONE(fakedrv_copy(first_, memory, pinned, kBytes));
  std::memset(pinned, 2, kBytes);  // too early: the copy takes it
  EXPECT_THAT(bytes_of(first_, memory), Each(2));
  EXPECT_DONE(fakedrv_fill(first_, memory, 3, kBytes));
  EXPECT_DONE(fakedrv_copy(first_, pinned, memory, kBytes));
  EXPECT_EQ(*static_cast<char*>(pinned), 2);
  int polls = 1, is_done = 0;
  for (; fakedrv_poll(first_, &is_done) == 0 && !is_done; ++polls) EXPECT_LT(polls, 4);
  EXPECT_EQ(*static_cast<char*>(pinned), 3);
  EXPECT_DONE(fakedrv_free_pinned(pinned));
}

TEST_P(LazyDevice, RunsWhatAnEventNamesAndNoMore) {
  char *const one = alloc(first_), *const two = alloc(first_);
  fakedrv_event* event = nullptr;
  EXPECT_DONE(fakedrv_create_event(&event));
  EXPECT_DONE(fakedrv_wait_for_event(event)) << "not recorded";
  EXPECT_DONE(fakedrv_fill(first_, one, 1, kBytes));
  EXPECT_DONE(fakedrv_record(event, first_));
  EXPECT_DONE(fakedrv_fill(first_, two, 1, kBytes));
  EXPECT_DONE(fakedrv_wait_for_event(event));
  EXPECT_EQ(*static_cast<char*>(fakedrv_contents(one)), 1);
  EXPECT_EQ(*static_cast<char*>(fakedrv_contents(two)), static_cast<char>(0xff));
  fakedrv_destroy_event(event);
}

TEST(FakeDeviceDeathTest, NamesTheDeviceThatHostCodeTouches) {
  void* memory = nullptr;
  ASSERT_EQ(fakedrv_alloc(fakedrv_default_stream(1), kBytes, &memory), 0);
  EXPECT_DEATH(static_cast<volatile char*>(memory)[16] = 1,
               "fake device: host code touched memory of device 1 at \\+0x[0-9a-f]*10");
}

}  // namespace
