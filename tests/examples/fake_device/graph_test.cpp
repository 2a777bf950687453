// Captures and replays of the driver.
#include <functional>

#include "driver.hpp"

namespace fake {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::StrEq;

constexpr const char* kNotPermitted = "operation not permitted when stream is capturing";

class Graphs : public FakeDevice {
 protected:
  void TearDown() override {
    EXPECT_DONE(fakedrv_destroy_graph(graph_));
    FakeDevice::TearDown();
  }

  fakedrv_graph* graph_ = nullptr;

  void begin() { ASSERT_EQ(fakedrv_begin_capture(first_, &graph_), 0) << fakedrv_error(); }
  std::string name_of(fakedrv_stream* stream) const {
    return "stream " + std::to_string(fakedrv_stream_number(stream));
  }
};

INSTANTIATE_TEST_SUITE_P(Work, Graphs, testing::Bool(), name_of_mode);

TEST_P(Graphs, RunInReplaysAlone) {
  char* const memory = alloc(first_);
  EXPECT_DONE(fakedrv_fill(first_, memory, 1, kBytes));
  begin();
  EXPECT_EQ(fakedrv_capture(second_), 0u);
  EXPECT_GT(fakedrv_capture(first_), 0u);
  EXPECT_DONE(fakedrv_fill(first_, memory, 2, kBytes));
  EXPECT_DONE(fakedrv_copy(first_, memory + 8, memory, 8));
  EXPECT_DONE(fakedrv_fill(first_, memory, 3, 8));
  ASSERT_NE(fakedrv_replay(graph_, second_), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("whose capture has not ended well"));
  EXPECT_DONE(fakedrv_end_capture(first_));
  EXPECT_EQ(fakedrv_capture(first_), 0u);
  EXPECT_THAT(bytes_of(first_, memory), Each(1));
  for (int replay = 0; replay < 2; ++replay) {
    EXPECT_DONE(fakedrv_replay(graph_, first_));
    const std::vector<char> bytes = bytes_of(first_, memory);
    EXPECT_EQ(bytes[0], 3);
    EXPECT_EQ(bytes[8], 2);
    EXPECT_DONE(fakedrv_fill(first_, memory, 4, kBytes));
  }
}

TEST_P(Graphs, KeepTheirMemory) {
  char* const result = alloc(first_);
  begin();
  char* const one = alloc(first_);
  EXPECT_DONE(fakedrv_fill(first_, one, 5, kBytes));
  EXPECT_DONE(fakedrv_copy(first_, result, one, kBytes));
  EXPECT_DONE(fakedrv_free(one, nullptr));
  EXPECT_EQ(alloc(first_), one) << "serves the capture again";
  EXPECT_DONE(fakedrv_fill(first_, one, 6, kBytes));
  EXPECT_DONE(fakedrv_end_capture(first_));
  EXPECT_DONE(fakedrv_free(one, nullptr));
  char* const other = alloc(first_);
  EXPECT_NE(other, one) << "nothing else is served";
  EXPECT_DONE(fakedrv_fill(first_, other, 7, kBytes));
  EXPECT_DONE(fakedrv_replay(graph_, first_));
  EXPECT_THAT(bytes_of(first_, result), Each(5));
  EXPECT_THAT(bytes_of(first_, other), Each(7));
  EXPECT_DONE(fakedrv_destroy_graph(graph_));
  EXPECT_EQ(alloc(first_), one) << "belongs to nobody";
  begin();
}

TEST_P(Graphs, HaveNothingThatTheHostWouldSee) {
  char* const memory = alloc(first_);
  std::vector<char> here(kBytes);
  int is_done = 0;
  const auto nothing = [](void*) { return 0; };
  begin();
  EXPECT_NE(fakedrv_call(first_, "relu", nullptr, 0, nothing, nullptr), 0);
  const std::string first = "relu on " + name_of(first_) + ": " + kNotPermitted;
  EXPECT_THAT(fakedrv_error(), StrEq(first));
  for (const auto& call : std::vector<std::function<int()>>{
           [&] { return fakedrv_wait(first_); }, [&] { return fakedrv_wait_for_device(0); },
           [&] { return fakedrv_poll(first_, &is_done); }, [&] { return fakedrv_destroy_stream(first_); },
           [&] { return fakedrv_copy(first_, here.data(), memory, kBytes); },
           [&] { return fakedrv_copy(first_, memory, here.data(), kBytes); }}) {
    ASSERT_NE(call(), 0);
    EXPECT_THAT(fakedrv_error(), HasSubstr(kNotPermitted));
  }
  ASSERT_NE(fakedrv_end_capture(first_), 0);
  EXPECT_THAT(fakedrv_error(), StrEq(first));
  EXPECT_DONE(fakedrv_wait(first_)) << "the capture is over";
  ASSERT_NE(fakedrv_replay(graph_, first_), 0);
}

TEST_P(Graphs, TakeStreamsThatWaitForTheirEvents) {
  char* const memory = alloc(first_);
  begin();
  EXPECT_DONE(fakedrv_fill(first_, memory, 1, kBytes));
  order(second_, first_);
  EXPECT_EQ(fakedrv_capture(second_), fakedrv_capture(first_));
  EXPECT_DONE(fakedrv_fill(second_, memory, 2, kBytes));
  order(first_, second_);
  EXPECT_DONE(fakedrv_end_capture(first_));
  EXPECT_EQ(fakedrv_capture(second_), 0u);
  EXPECT_DONE(fakedrv_replay(graph_, first_));
  EXPECT_THAT(bytes_of(first_, memory), Each(2));
}

TEST_P(Graphs, EndBehindAllThatWasCaptured) {
  char* const memory = alloc(first_);
  begin();
  order(second_, first_);
  EXPECT_DONE(fakedrv_fill(second_, memory, 2, kBytes));
  ASSERT_NE(fakedrv_end_capture(second_), 0);
  EXPECT_THAT(fakedrv_error(), StrEq("no capture has begun on " + name_of(second_)));
  ASSERT_NE(fakedrv_end_capture(first_), 0);
  EXPECT_THAT(fakedrv_error(),
              StrEq(name_of(second_) + " has captured work that nothing orders before the end of the capture"));
  EXPECT_EQ(fakedrv_capture(second_), 0u);
}

TEST_P(Graphs, HaveAnOrderOfTheirOwn) {
  fakedrv_event *before = nullptr, *within = nullptr;
  for (fakedrv_event** event : {&before, &within}) EXPECT_DONE(fakedrv_create_event(event));
  EXPECT_DONE(fakedrv_record(before, second_));
  begin();
  ASSERT_NE(fakedrv_stream_waits(first_, before), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("a wait for an event that was not captured"));
  EXPECT_DONE(fakedrv_record(within, first_));
  ASSERT_NE(fakedrv_wait_for_event(within), 0);
  EXPECT_THAT(fakedrv_error(), StrEq("an event that was captured is not known to the host"));
  EXPECT_EQ(fakedrv_event_is_done(within), 0);
  EXPECT_NE(fakedrv_end_capture(first_), 0);
  ASSERT_NE(fakedrv_stream_waits(second_, within), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("waits for an event of a capture that has ended"));
  for (fakedrv_event* event : {before, within}) fakedrv_destroy_event(event);
}

TEST_P(Graphs, NameRacesWithinAndWithOthers) {
  char *const one = alloc(first_), *const two = alloc(first_);
  begin();
  order(second_, first_);
  EXPECT_DONE(fakedrv_fill(first_, one, 1, kBytes));
  ASSERT_NE(fakedrv_copy(second_, two, one, kBytes), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("reads what fill on " + name_of(first_) + " writes"));
  order(second_, first_);
  EXPECT_DONE(fakedrv_copy(second_, two, one, kBytes));
  order(first_, second_);
  EXPECT_DONE(fakedrv_end_capture(first_));
  EXPECT_DONE(fakedrv_replay(graph_, first_));
  ASSERT_NE(fakedrv_fill(second_, two, 2, kBytes), 0) << "the replay is work like other work";
  EXPECT_THAT(fakedrv_error(), HasSubstr("writes what copy on " + name_of(first_) + " writes"));
  EXPECT_DONE(fakedrv_replay(graph_, second_)) << "replays of a graph come one behind the other";
  EXPECT_DONE(fakedrv_wait(second_));
}

TEST_P(Graphs, RefuseMemoryThatIsFreeByNow) {
  char* const memory = alloc(first_);
  begin();
  EXPECT_DONE(fakedrv_fill(first_, memory, 1, kBytes));
  EXPECT_DONE(fakedrv_end_capture(first_));
  EXPECT_DONE(fakedrv_free(memory, nullptr));
  ASSERT_NE(fakedrv_replay(graph_, first_), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr("was given memory of device 0 that is not allocated"));
}

TEST_P(Graphs, RunAtOnceWhatWasCapturedSo) {
  char *const one = alloc(first_), *const two = alloc(first_);
  EXPECT_DONE(fakedrv_fill(first_, two, 0, kBytes));
  EXPECT_NE(fakedrv_replay_at_once(first_), 0);
  begin();
  EXPECT_DONE(fakedrv_fill(first_, one, 1, kBytes));
  EXPECT_DONE(fakedrv_replay_at_once(first_));
  EXPECT_DONE(fakedrv_fill(first_, two, 1, kBytes));
  EXPECT_DONE(fakedrv_end_capture(first_));
  const uint64_t waits = fakedrv_num_waits();
  EXPECT_DONE(fakedrv_replay(graph_, first_));
  EXPECT_EQ(*static_cast<char*>(fakedrv_contents(one)), 1);
  EXPECT_EQ(*static_cast<char*>(fakedrv_contents(two)), GetParam() ? 1 : 0);
  EXPECT_EQ(fakedrv_num_waits(), waits);
}

TEST_P(Graphs, BeginOnStreamsThatCan) {
  fakedrv_graph* none = nullptr;
  ASSERT_NE(fakedrv_begin_capture(fakedrv_default_stream(0), &none), 0);
  EXPECT_THAT(fakedrv_error(), StrEq("the default stream of a device cannot capture"));
  begin();
  ASSERT_NE(fakedrv_begin_capture(first_, &none), 0);
  EXPECT_THAT(fakedrv_error(), HasSubstr(kNotPermitted));
  EXPECT_EQ(none, nullptr);
}

TEST_P(Graphs, DropTheirArgumentsInTheEnd) {
  static int dropped;
  dropped = 0;
  int runs = 0;
  const auto run = [](void* arg) { return ++*static_cast<int*>(arg), 0; };
  const auto drop = [](void*) { ++dropped; };
  begin();
  EXPECT_DONE(fakedrv_launch(first_, "count", nullptr, 0, run, &runs, drop));
  EXPECT_DONE(fakedrv_end_capture(first_));
  for (int replay = 0; replay < 3; ++replay) EXPECT_DONE(fakedrv_replay(graph_, first_));
  EXPECT_EQ(dropped, 0);
  EXPECT_DONE(fakedrv_destroy_graph(graph_));
  EXPECT_EQ(runs, 3) << "the end of a graph waits for its replays";
  EXPECT_EQ(dropped, 1);
  begin();
}

}  // namespace
}  // namespace fake
