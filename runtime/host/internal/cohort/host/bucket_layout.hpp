// How parameters are laid out in buckets: a pure function.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cohort/host/device_port.hpp>

namespace cohort::host {

/// A parameter as the layout sees it.
struct LayoutParameter {
  uint32_t id = 0;  ///< registration index
  std::string name;
  uint64_t numel = 0;
  int32_t dtype = 0;
  uint32_t phase = 0;
  Device device{};
};

struct LayoutLimits {
  uint64_t size = 0;        ///< bytes at which a bucket closes
  uint64_t first_size = 0;  ///< bytes at which the first bucket closes; 0: as size
  uint64_t align = 1;       ///< every bucket's numel is a multiple
  bool one_bucket = false;  ///< one bucket per dtype, phase and device
  bool any_order = false;   ///< within a bucket, parts may change places: as many as possible begin a cache line
  uint64_t alone_size = 0;  ///< a parameter of at least so many bytes has a bucket of its own; 0: none has
};

/// One bucket of the layout. Offsets and numel count elements.
struct BucketPlan {
  struct Part {
    uint32_t id;
    uint64_t offset, numel;
    std::string name;
  };
  int32_t dtype = 0;
  uint32_t phase = 0;
  Device device{};
  uint64_t numel = 0;   ///< padding included
  uint64_t nbytes = 0;  ///< padding included
  std::vector<Part> parts;
};

/// Parameters in the order in which their gradients are expected (usually reverse registration order). A bucket holds
/// one dtype, phase and device and closes when its size is reached or passed; buckets come in the order in which they
/// close, those that never close last.
std::vector<BucketPlan> layout_buckets(std::span<const LayoutParameter> order, const LayoutLimits& limits);

}  // namespace cohort::host
