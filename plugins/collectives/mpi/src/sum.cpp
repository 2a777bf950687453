#include "sum.hpp"

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/reduce.hpp>

namespace cohort::mpi {

namespace baseline {
void sum(std::int32_t dtype, bool is_mean, const Sources& sources);
}
#ifdef COHORT_HAS_X86_ISAS
namespace avx2 {
void sum(std::int32_t dtype, bool is_mean, const Sources& sources);
}
namespace avx512 {
void sum(std::int32_t dtype, bool is_mean, const Sources& sources);
}
#endif

#ifdef COHORT_HAS_X86_ISAS

FloatSum float_sum_for(std::string_view isa) {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool is_auto = isa == "auto";
  if ((is_auto || isa == "avx512") && has_avx512) return avx512::sum;
  if ((is_auto || isa == "avx2") && has_avx2) return avx2::sum;
  return is_auto || isa == "baseline" ? baseline::sum : nullptr;
}

#else

FloatSum float_sum_for(std::string_view isa) {
  return isa == "auto" || isa == "baseline" ? baseline::sum : nullptr;
}

#endif

void reduce_in_order(FloatSum float_sum, std::int32_t dtype, std::int32_t reduce, const Sources& sources) {
  const bool is_mean = reduce == COHORT_REDUCE_MEAN;
  if (sdk::is_floating(dtype) && (is_mean || reduce == COHORT_REDUCE_SUM)) return float_sum(dtype, is_mean, sources);
  sdk::reduce_elements(dtype, reduce, {sources.data, sources.ranks}, sources.output, sources.count);
}

}  // namespace cohort::mpi
