#include "supports.hpp"

namespace cohort::bagua {
sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_CLIPPING && query.variant() == "qadam") {
    return sdk::no("after its warm-up it averages momenta, not gradients",
                   "leave clipping out, or choose --strategy=bagua:bytegrad");
  }
  if (query.use() == COHORT_USE_CLOSURES) {
    return sdk::no("it communicates once in a step", "choose another optimizer, or --strategy=ddp");
  }
  return sdk::yes_to_known(query);
}

}  // namespace cohort::bagua
