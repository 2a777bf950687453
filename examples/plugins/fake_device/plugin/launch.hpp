// Work of the plugin on the driver: what it reads and writes, and what computes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <cohort/api/tensor.h>
#include <cohort/sdk/error.hpp>

#include "fakedrv.h"

namespace fake {

inline void check(int failed) {
  if (failed) throw cohort::sdk::Error(COHORT_INTERNAL, fakedrv_error());
}

/// Returns the driver's stream. Throws if there is none.
inline fakedrv_stream* stream_of(const cohort_stream& stream) {
  if (stream.native && stream.device_type == COHORT_DEVICE_EXT) return static_cast<fakedrv_stream*>(stream.native);
  throw cohort::sdk::invalid_argument("fake device: this is no stream of a fake device");
}

/// The accesses of a work.
class Accesses {
 public:
  Accesses& reads(const void* memory, uint64_t nbytes) { return add(memory, nbytes, 0); }
  Accesses& writes(void* memory, uint64_t nbytes) { return add(memory, nbytes, 1); }
  const std::vector<fakedrv_access>& all() const { return all_; }

 private:
  std::vector<fakedrv_access> all_;

  Accesses& add(const void* memory, uint64_t nbytes, uint32_t is_write) {
    if (nbytes > 0) all_.push_back({memory, nbytes, is_write, 0});
    return *this;
  }
};

/// Enqueues `compute`, which returns a status.
template <class Compute>
void launch(const cohort_stream& stream, const char* name, const Accesses& accesses, Compute compute) {
  const auto work = [](void* arg) {
    return (*static_cast<Compute*>(arg))() == COHORT_OK ? 0 : fakedrv_fail("the kernel refused its arguments");
  };
  const auto drop = [](void* arg) { delete static_cast<Compute*>(arg); };
  check(fakedrv_launch(stream_of(stream), name, accesses.all().data(), accesses.all().size(), work,
                       new Compute(std::move(compute)), drop));
}

/// Returns where the work finds the bytes of an address.
template <class T>
T* contents(T* memory) {
  return static_cast<T*>(fakedrv_contents(memory));
}

}  // namespace fake
