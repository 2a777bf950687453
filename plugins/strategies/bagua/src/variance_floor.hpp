// Second moments that are kept from now on become at least a part of the mean of their parameter's.
//
// An element that had almost no gradient in the warm-up has a second moment near 0. Every later step would divide its
// momentum, or only the error of the codec, by eps. The floor is added to all of the parameter: kernels that
// every device has do that, and beside an ordinary element it is nothing. Once for each parameter, which a checkpoint
// knows. Threads: [main] and [step].
#pragma once

#include <cstdint>
#include <vector>

#include <cohort/sdk/host.hpp>

namespace cohort::bagua {

class VarianceFloor {
 public:
  /// `part`: of the mean; 0: nothing is raised.
  explicit VarianceFloor(double part) : part_(part) {}

  /// Raises the second moment of each part of a bucket, once; `squares` are the bucket's.
  void raise(const sdk::Host& host, const cohort_bucket& bucket, const sdk::Elements& squares);
  /// Says in the log how many elements were below their floor, if it is news.
  void report(const sdk::Host& host);

  void save(const sdk::Host& host) const;
  void load(const sdk::Host& host);

 private:
  double part_;
  std::vector<uint8_t> is_raised_;   // by parameter; empty: none
  uint64_t elements_ = 0, low_ = 0;  // of those that were raised since the last report

  void raise(const sdk::Host& host, const sdk::Elements& square);
};

}  // namespace cohort::bagua
