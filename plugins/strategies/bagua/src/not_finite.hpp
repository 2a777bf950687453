// Says, once in a run, that NaN or infinity was sent, and which parameters of this rank are the reason.
//
// Threads: any.
#pragma once

#include <atomic>

#include <cohort/sdk/host.hpp>

namespace cohort::bagua {

class NotFinite {
 public:
  /// Of this rank; `elements` as they were sent: fp32 or another type of the bucket.
  void report_own(const sdk::Host& host, const cohort_bucket& bucket, const sdk::Elements& elements, const char* what);
  void report_other(const sdk::Host& host, const cohort_bucket& bucket, const char* what);

 private:
  std::atomic<bool> is_said_{false};
};

}  // namespace cohort::bagua
