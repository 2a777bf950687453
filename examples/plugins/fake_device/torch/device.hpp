// The driver's devices and streams as c10 names them.
#pragma once

#include <string_view>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include "fakedrv.h"

namespace fake_torch {

inline constexpr c10::DeviceType kFake = c10::DeviceType::PrivateUse1;

/// Throws what the driver says about a call that failed.
inline void check(int failed) {
  TORCH_CHECK(!failed, fakedrv_error());
}

inline c10::Device device_at(int index) {
  return {kFake, static_cast<c10::DeviceIndex>(index)};
}

/// Returns the calling thread's current device.
inline c10::Device current_device() {
  return device_at(fakedrv_current_device());
}

/// Returns this device, or the current one where the index is left open. Throws if there is no such device.
inline c10::Device whole(c10::Device device) {
  TORCH_CHECK(device.type() == kFake, "expected a fake device, not ", device);
  if (!device.has_index()) return current_device();
  TORCH_CHECK(device.index() < FAKEDRV_DEVICES, "there is no device ", device, ": there are ", FAKEDRV_DEVICES);
  return device;
}

/// Returns the calling thread's current stream of a device.
inline fakedrv_stream* current_stream(c10::Device device) {
  return fakedrv_current_stream(device.index());
}

/// Returns the stream as c10 names it: by the driver's number, or 0 for a device's default stream.
inline c10::Stream named(fakedrv_stream* stream) {
  const int device = fakedrv_stream_device(stream);
  const bool is_default = stream == fakedrv_default_stream(device);
  return c10::Stream(c10::Stream::UNSAFE, device_at(device), is_default ? 0 : fakedrv_stream_number(stream));
}

/// Returns the driver's stream. Throws if there is none.
inline fakedrv_stream* stream_of(const c10::Stream& stream) {
  const c10::Device device = whole(stream.device());
  if (stream.id() == 0) return fakedrv_default_stream(device.index());
  fakedrv_stream* const found = fakedrv_find_stream(static_cast<int>(stream.id()));
  TORCH_CHECK(found && fakedrv_stream_device(found) == device.index(), "there is no ", stream);
  return found;
}

/// Throws if the stream captures, in CUDA's words: the host would have to see bytes that there are none of yet.
inline void refuse_in_capture(fakedrv_stream* stream, std::string_view name) {
  TORCH_CHECK(fakedrv_capture(stream) == 0, name, ": operation not permitted when stream is capturing");
}

}  // namespace fake_torch
