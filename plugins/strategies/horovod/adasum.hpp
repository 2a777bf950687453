// Adasum: the changes that ranks have made to their weights, combined so that what they have in common counts once.
//
// Of two changes a and b of a tensor: a (1 - a.b / (2 |a|^2)) + b (1 - a.b / (2 |b|^2)), their plain sum where one of
// them is zero; of more by pairs, nearest ranks first (Maleki et al., "Scaling distributed training with adaptive
// summation", 2020). Each rank computes a part of every tensor: halves are exchanged on the way up the tree and back,
// so all ranks have the same bits. Products are summed in float64.
#pragma once

#include <cstdint>
#include <vector>

#include <cohort/sdk/host.hpp>

namespace cohort::horovod {

class Adasum {
 public:
  /// In plan_buckets: weights in one bucket, and memory for two copies of them; no gradients.
  static void plan(const sdk::Buckets& buckets, cohort_bucket_plan& plan);
  /// In layout_ready: memory for products on the device.
  void prepare(const sdk::Host& host);
  /// Before the local step of a phase: what the weights are. [step]
  void remember(const sdk::Host& host, uint32_t phase);
  /// After it: the weights become what they were plus the combined change of all ranks. [lane]
  void combine(const sdk::Host& host, uint32_t phase);

 private:
  struct Range {
    uint64_t begin, end;
    uint64_t size() const { return end - begin; }
  };
  /// a.b, a.a and b.b of a tensor.
  struct Products {
    double both, first, second;
  };
  struct Work;

  std::vector<sdk::DeviceBuffer> results_;   // by bucket: Products, by part
  std::vector<Products> products_, others_;  // by part of the bucket
  std::vector<Range> ranges_;                // of the levels below

  Range climb(const sdk::Host& host, const Work& work, Range range, int distance);
  void multiply(const sdk::Host& host, const Work& work, Range range, bool is_first);
  void add_up_products(const Work& work, int distance);
  void merge(const Work& work, Range range, bool is_first) const;
};

}  // namespace cohort::horovod
