// The buckets of the layout and their views, as calls that throw.
//
//   const sdk::TensorView gradients = host().buckets().view(bucket.index, COHORT_BUCKET_GRAD);
//
// Buckets is a borrowed handle: copy it freely. Threads: see cohort/api/host/buckets.h.
#pragma once

#include <cstdint>
#include <string>

#include <cohort/api/host/buckets.h>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/tensor.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// Flat buffers with the layout of the parameters, see cohort/api/host/buckets.h.
class Buckets {
 public:
  Buckets(const cohort_host* host, const cohort_buckets_1& table) : host_(host), table_(&table) {}

  /// Requests a buffer, in plan_buckets. `name` is for STATE and OPTIM; `dtype` (0: the bucket's) and `flags`
  /// (COHORT_STATE_...) are for STATE.
  void want(int32_t kind, const char* name = nullptr, int32_t dtype = 0, uint32_t flags = 0) const {
    check(table_->want(host_, kind, name, dtype, flags));
  }
  /// Withdraws the requests of the layers below for this kind, in plan_buckets.
  void drop(int32_t kind) const { check(table_->drop(host_, kind)); }
  uint32_t count() const { return table_->count(host_); }
  const cohort_bucket& at(uint32_t index) const {
    const cohort_bucket* bucket = table_->get(host_, index);
    if (!bucket) throw invalid_argument("there is no bucket " + std::to_string(index));
    return *bucket;
  }
  /// Returns a flat tensor [numel].
  TensorView view(uint32_t index, int32_t kind, const char* name = nullptr) const {
    cohort_tensor tensor{};
    check(table_->view(host_, index, kind, name, &tensor));
    return TensorView(tensor);
  }
  /// Requests another layout before the next step: the host calls plan_buckets, then layout_ready.
  void request_relayout() const { check(table_->request_relayout(host_)); }

 private:
  const cohort_host* host_;
  const cohort_buckets_1* table_;
};

}  // namespace v1
}  // namespace cohort::sdk
