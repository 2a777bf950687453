// The memory that the parts of a model take of their devices, and under --profile the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parts/part_devices.hpp"
#include "profile/profile.hpp"

namespace cohort {

/// Measures the parts. The figures of a part belong to the thread that has entered it, all others to the thread of the
/// loop.
class PartUse {
 public:
  /// `profile` may be null: then no time is measured.
  PartUse(const PartDevices& devices, Profile* profile);

  void begin_batch() { batch_begun_ns_ = now(); }
  void end_batch() { batches_ns_ += now() - batch_begun_ns_; }
  void enter(size_t part) { parts_[part].entered_ns = now(); }
  /// `what` is "forward" or "backward".
  void leave(size_t part, const char* what, size_t piece);
  /// Returns a table of the parts; "" if nothing was measured.
  std::string table() const;

 private:
  struct Part {
    int64_t busy_ns = 0, entered_ns = 0;
  };
  const PartDevices& devices_;
  Profile* profile_;
  std::vector<Part> parts_;
  int64_t batches_ns_ = 0, batch_begun_ns_ = 0;

  int64_t now() const { return profile_ ? clock_ns() : 0; }
};

}  // namespace cohort
