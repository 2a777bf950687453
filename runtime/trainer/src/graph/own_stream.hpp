// A stream of a training's own: the default one of a device cannot be captured.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace cohort {

/// While it lives, a new stream is the calling thread's current one of the device. It begins behind the one that was,
/// which goes on behind it.
class OwnStream {
 public:
  explicit OwnStream(c10::Device device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

 private:
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream before_, own_;
};

}  // namespace cohort
