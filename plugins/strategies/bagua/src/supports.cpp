#include "supports.hpp"

namespace cohort::bagua {
namespace {

sdk::Answer supports_join(const sdk::Query& query) {
  if (query.variant() == "qadam") {
    return sdk::no("after its warm-up it averages momenta, which of a rank without data are no zeros",
                   "choose --strategy=bagua:bytegrad");
  }
  if (query.variant() != "gradient_allreduce" && query.variant() != "bytegrad") {
    return sdk::no("a rank without data would keep its old weights in the averages",
                   "choose --strategy=bagua:bytegrad");
  }
  if (query.options().flag("average")) return sdk::yes();
  return sdk::no("only an average over the ranks can leave those without data out", "leave average=false out");
}

}  // namespace

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_CLIPPING && query.variant() == "qadam") {
    return sdk::no("after its warm-up it averages momenta, not gradients",
                   "leave clipping out, or choose --strategy=bagua:bytegrad");
  }
  if (query.use() == COHORT_USE_LOSS_SCALER && query.variant() == "qadam") {
    return sdk::no("its momenta keep what arrives, before a step can be left out",
                   "choose --precision=bf16-mixed, or --strategy=bagua:bytegrad");
  }
  if (query.use() == COHORT_USE_PRECISION && query.variant() == "async") {
    return sdk::no("weights change at moments of its own, which rounded copies do not follow",
                   "choose --precision=bf16-mixed or 16-mixed, or --strategy=bagua:decentralized");
  }
  if (query.use() == COHORT_USE_CLOSURES) {
    return sdk::no("it communicates once in a step", "choose another optimizer, or --strategy=ddp");
  }
  if (query.use() == COHORT_USE_JOIN) return supports_join(query);
  return sdk::yes_to_known(query, {COHORT_USE_LOSS_SCALER, COHORT_USE_PRECISION});
}

}  // namespace cohort::bagua
