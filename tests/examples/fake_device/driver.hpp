// Tests of the driver by its C interface: two streams of device 0.
#pragma once

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "fakedrv.h"

#define EXPECT_DONE(call) EXPECT_EQ(call, 0) << fakedrv_error()

namespace fake {

inline constexpr uint64_t kBytes = 512;

/// The parameter says whether work runs when it is enqueued.
class FakeDevice : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fakedrv_set_eager(GetParam() ? 1 : 0);
    for (fakedrv_stream** stream : {&first_, &second_}) ASSERT_EQ(fakedrv_create_stream(0, stream), 0);
  }
  void TearDown() override {
    for (fakedrv_stream* stream : {first_, second_}) EXPECT_DONE(fakedrv_destroy_stream(stream));
    fakedrv_set_eager(0);
  }

  fakedrv_stream *first_ = nullptr, *second_ = nullptr;

  static char* alloc(fakedrv_stream* stream) {
    void* memory = nullptr;
    EXPECT_DONE(fakedrv_alloc(stream, kBytes, &memory));
    return static_cast<char*>(memory);
  }
  static std::vector<char> bytes_of(fakedrv_stream* stream, const void* memory) {
    std::vector<char> bytes(kBytes);
    EXPECT_DONE(fakedrv_copy(stream, bytes.data(), memory, kBytes));
    return bytes;
  }
  // Orders what `later` does from now on behind `earlier`.
  static void order(fakedrv_stream* later, fakedrv_stream* earlier) {
    fakedrv_event* event = nullptr;
    EXPECT_DONE(fakedrv_create_event(&event));
    EXPECT_DONE(fakedrv_record(event, earlier));
    EXPECT_DONE(fakedrv_stream_waits(later, event));
    fakedrv_destroy_event(event);
  }
};

inline std::string name_of_mode(const testing::TestParamInfo<bool>& tested) {
  return tested.param ? "Eager" : "Lazy";
}

}  // namespace fake
