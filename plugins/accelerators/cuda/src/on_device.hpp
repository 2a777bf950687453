// The calling thread's current device, for as long as an object lives.
//
// Threads: any; an object belongs to the thread that made it.
#pragma once

#include <cstdint>

namespace cohort::cuda {

/// Makes a device the calling thread's current one, and the one before it again at its end. A device that nothing in
/// this process uses yet is not returned to: selecting it would take some hundred MiB of its memory for the process.
class OnDevice {
 public:
  /// Below 0: the current device stays.
  explicit OnDevice(int32_t index);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  bool is_changed_ = false;
};

}  // namespace cohort::cuda
