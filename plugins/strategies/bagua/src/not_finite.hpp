// Says, once in a run, that NaN or infinity was sent, and which parameters of this rank are the reason.
//
// On CPU that is known as soon as a bucket is encoded. On a device the beginnings of chunks, by which it is known, are
// kept there, and read when the next step begins, which waits for them; by then only the bucket can be named.
// Threads: configure and report_kept on [main] and [step], all else on lanes.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "codec.hpp"

namespace cohort::bagua {

class NotFinite {
 public:
  /// Tells two kinds of chunks apart: those that this rank sends, or those that come back.
  enum class Chunks { kOwn, kResult };

  /// `what`: "gradient".
  explicit NotFinite(const char* what) : what_(what) {}

  /// After each layout: `ranks` chunks for each bucket.
  void configure(const sdk::Host& host, int ranks);
  /// Looks at the chunks of a bucket, of `nbytes` each; `data` is what was encoded. [lane]
  void look(const sdk::Host& host, const cohort_bucket& bucket, Chunks whose, const sdk::Elements& data,
            const void* chunks, uint64_t nbytes);
  /// Reports what was looked at on a device, when no bucket is under way.
  void report_kept(const sdk::Host& host);

 private:
  const char* what_;
  int ranks_ = 0;
  std::atomic<bool> is_said_{false};
  std::atomic<bool> has_kept_{false};
  sdk::DeviceBuffer begins_;  // by bucket: of own chunks, of those that came back; on a device only

  uint64_t place_of(uint64_t bucket, Chunks whose) const;
  void report(const sdk::Host& host, const cohort_bucket& bucket, Chunks whose, const std::string& names);
};

}  // namespace cohort::bagua
