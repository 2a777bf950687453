#include "loop/joining.hpp"

#include <array>

#include <cohort/host/error.hpp>

#include "loop/data_of_ranks.hpp"

namespace cohort {

void Joining::compare_data() {
  const std::string own = data_text(train_);
  has_equal_data_ = fit_.runtime.is_same_on_all_ranks(own, "comparing the ranks' training data");
  if (has_equal_data_) return;
  const std::string warning = warning_of_data(fit_.runtime.all_gather(own), fit_.options().uneven);
  if (fit_.runtime.is_first()) fit_.runtime.log().warning(warning);
}

void Joining::require_equal_sizes() const {
  if (fit_.runtime.world_size() == 1 || has_equal_counts()) return;
  throw UserError(
      "--graph: ranks capture and replay together, and with a stream, a sampler of one's own or data of other lengths "
      "they may have batches of other sizes; give all ranks a dataset of the same length, or leave --graph out");
}

void Joining::count_active(bool has_batch) {
  std::array<double, 1> ranks{has_batch ? 1.0 : 0.0};
  fit_.runtime.all_reduce_sum(ranks);
  active_ranks_ = ranks[0];
}

int64_t Joining::batches_of_step(int64_t own) const {
  if (has_active_ranks()) return fit_.limits.accumulate;
  std::array<double, 1> longest{static_cast<double>(own)};
  fit_.runtime.all_reduce_max(longest);
  return static_cast<int64_t>(longest[0]);
}

}  // namespace cohort
