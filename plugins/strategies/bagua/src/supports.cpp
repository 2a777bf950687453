#include "supports.hpp"

namespace cohort::bagua {
namespace {

bool compresses(const sdk::Query& query) {
  return query.variant() == "bytegrad" || query.variant() == "qadam" ||
         query.variant() == "low_precision_decentralized";
}

}  // namespace

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_CLIPPING && query.variant() == "qadam") {
    return sdk::no("after its warm-up it averages momenta, not gradients",
                   "leave clipping out, or choose --strategy=bagua:bytegrad");
  }
  if (query.use() == COHORT_USE_DEVICE_TYPE && query.value() != COHORT_DEVICE_CPU && compresses(query)) {
    return sdk::no("it compresses what it sends on CPU devices only", "choose --strategy=bagua:gradient_allreduce");
  }
  return sdk::yes_to_known(query);
}

}  // namespace cohort::bagua
