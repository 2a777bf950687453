// How the elements of a tensor are distributed, in the buckets that TensorFlow's histograms have.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace cohort {

/// All zero for a tensor without finite elements.
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> limits;  ///< limits[i] is the first value above bucket i, which begins at limits[i - 1]
  std::vector<double> counts;  ///< as many as limits
};

/// Limits grow by 10% from 1e-12 to 1e20, and in the same way below 0. Neighbouring empty buckets become one. Elements
/// that are not finite are left out.
Histogram histogram_of(const at::Tensor& tensor);

}  // namespace cohort
