// What the parts of a model took of their devices: memory, and under --profile time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parts/part_devices.hpp"
#include "profile/profile.hpp"

namespace cohort {

/// A part's figures belong to the thread that has entered it, the others to the thread of the loop.
class PartUse {
 public:
  /// `profile` may be null: then no time is measured.
  PartUse(const PartDevices& devices, Profile* profile);

  void begin_batch();
  void end_batch();
  void enter(size_t part);
  /// `what`: "forward" or "backward".
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
};

}  // namespace cohort
