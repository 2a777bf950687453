// The accelerator `wrong_kernels`: each kernel computes something, and errs in one way that a careless author might.
#include <cmath>

#include <cohort/sdk/accelerator.hpp>
#include <cohort/sdk/portable/adam_kernels.hpp>
#include <cohort/sdk/portable/core_kernels.hpp>
#include <cohort/sdk/portable/minmax_uint8_kernels.hpp>
#include <cohort/sdk/portable/ring_kernels.hpp>

namespace {

namespace sdk = cohort::sdk;

struct Any {};
using Core = sdk::portable::CoreKernels<Any>;
using Codec = sdk::portable::MinmaxUint8Kernels<Any>;
using Adam = sdk::portable::AdamKernels<Any>;
using Ring = sdk::portable::RingKernels<Any>;

// Writes one element more than some.
cohort_status fill(cohort_accelerator* a, void* out, int32_t dtype, uint64_t n, double value,
                   const cohort_stream* stream) noexcept {
  return Core::fill(a, out, dtype, n == 0 ? 0 : n + 1, value, stream);
}

// Leaves out the last byte of an odd number.
cohort_status copy(cohort_accelerator* a, void* out, const void* in, uint64_t nbytes,
                   const cohort_stream* stream) noexcept {
  return Core::copy(a, out, in, nbytes / 2 * 2, stream);
}

// Takes any type for float32.
cohort_status scale(cohort_accelerator* a, void* out, const void* in, int32_t dtype, uint64_t n, double factor,
                    const cohort_stream* stream) noexcept {
  return Core::scale(a, out, in, sdk::is_floating(dtype) ? dtype : COHORT_FLOAT32, n, factor, stream);
}

// Fuses the last product with the sum.
cohort_status axpby(cohort_accelerator* a, void* out, const void* x, int32_t dtype, uint64_t n, double p, double q,
                    const cohort_stream* stream) noexcept {
  if (dtype != COHORT_FLOAT32) return Core::axpby(a, out, x, dtype, n, p, q, stream);
  const auto* from = static_cast<const float*>(x);
  auto* to = static_cast<float*>(out);
  for (uint64_t i = 0; i < n; ++i) {
    to[i] = std::fma(static_cast<float>(q), to[i], static_cast<float>(p) * from[i]);
  }
  return COHORT_OK;
}

// Rounds twice on the way from float64.
cohort_status cast(cohort_accelerator* a, void* out, int32_t out_dtype, const void* in, int32_t in_dtype, uint64_t n,
                   const cohort_stream* stream) noexcept {
  if (in_dtype != COHORT_FLOAT64 || out_dtype != COHORT_BFLOAT16) {
    return Core::cast(a, out, out_dtype, in, in_dtype, n, stream);
  }
  const auto* from = static_cast<const double*>(in);
  auto* to = static_cast<sdk::BFloat16*>(out);
  for (uint64_t i = 0; i < n; ++i) to[i] = sdk::to_bfloat16(sdk::to_float(sdk::to_half(static_cast<float>(from[i]))));
  return COHORT_OK;
}

// Begins with the last input.
cohort_status sum_of_n(cohort_accelerator* a, void* out, const void* const* inputs, uint64_t num_inputs, int32_t dtype,
                       uint64_t n, double factor, const cohort_stream* stream) noexcept {
  if (num_inputs != 5) return Core::sum_of_n(a, out, inputs, num_inputs, dtype, n, factor, stream);
  const void* const reversed[] = {inputs[4], inputs[3], inputs[2], inputs[1], inputs[0]};
  return Core::sum_of_n(a, out, reversed, 5, dtype, n, factor, stream);
}

// Squares in float32.
cohort_status square_sum(cohort_accelerator* a, const void* in, int32_t dtype, uint64_t n, double* result,
                         const cohort_stream* stream) noexcept {
  const cohort_status status = Core::Sums::square_sum(a, in, dtype, n, result, stream);
  *result = static_cast<double>(static_cast<float>(*result));
  return status;
}

// Does not see the first element.
cohort_status found_inf(cohort_accelerator* a, const void* in, int32_t dtype, uint64_t n, uint32_t* found,
                        const cohort_stream* stream) noexcept {
  const uint64_t skipped = n > 0 ? 1 : 0;
  const auto* const second = static_cast<const char*>(in) + skipped * sdk::size_of(dtype);
  return Core::Sums::found_inf(a, second, dtype, n - skipped, found, stream);
}

// Puts chunks close together.
cohort_status encode(cohort_accelerator* a, void* chunks, const void* in, int32_t dtype, uint64_t chunk_numel,
                     uint64_t num_chunks, double divisor, const cohort_stream* stream) noexcept {
  cohort_status status = Codec::encode(a, chunks, in, dtype, chunk_numel, num_chunks == 0 ? 0 : 1, divisor, stream);
  for (uint64_t c = 1; c < num_chunks && status == COHORT_OK; ++c) {
    auto* const chunk = static_cast<char*>(chunks) + c * (COHORT_MINMAX_UINT8_HEADER_NBYTES + chunk_numel);
    const auto* const first = static_cast<const char*>(in) + c * chunk_numel * sdk::size_of(dtype);
    status = Codec::encode(a, chunk, first, dtype, chunk_numel, 1, divisor, stream);
  }
  return status;
}

// Has an eps of its own.
cohort_status step(cohort_accelerator* a, void* weight, const void* momentum, const void* square, int32_t dtype,
                   uint64_t n, double keep, double rate, double correction, double eps,
                   const cohort_stream* stream) noexcept {
  return Adam::step(a, weight, momentum, square, dtype, n, keep, rate, correction, eps + 1e-7, stream);
}

// Takes the left neighbour for the right one.
cohort_status change(cohort_accelerator* a, void* x, const void* left, const void* right, const void* own,
                     int32_t dtype, uint64_t n, const cohort_stream* stream) noexcept {
  return Ring::change(a, x, right, left, own, dtype, n, stream);
}

constexpr cohort_kernels_core_1 kCore{sizeof(cohort_kernels_core_1),
                                      0,
                                      nullptr,
                                      fill,
                                      copy,
                                      scale,
                                      axpby,
                                      cast,
                                      sum_of_n,
                                      square_sum,
                                      Core::Sums::dot,
                                      found_inf};
constexpr cohort_kernels_minmax_uint8_1 kCodec{
    sizeof(cohort_kernels_minmax_uint8_1), 0, nullptr, encode, Codec::decode, Codec::decode_add};
constexpr cohort_kernels_adam_1 kAdam{sizeof(cohort_kernels_adam_1), 0, nullptr, step};
constexpr cohort_kernels_ring_1 kRing{sizeof(cohort_kernels_ring_1), 0, nullptr, change};

class WrongKernels : public sdk::Accelerator<WrongKernels> {
 public:
  static constexpr int32_t kDeviceType = COHORT_DEVICE_CPU;
  static constexpr const char* kTorchDeviceType = "cpu";
  static constexpr const char* kTorchLibrary = nullptr;

  // One more each time.
  int32_t device_count() { return ++count_; }
  const void* kernels(const char* id) {
    const std::string_view wanted(id);
    if (wanted == COHORT_KERNELS_CORE_ID) return &kCore;
    if (wanted == COHORT_KERNELS_MINMAX_UINT8_ID) return &kCodec;
    return wanted == COHORT_KERNELS_RING_ID ? static_cast<const void*>(&kRing) : &kAdam;
  }

 private:
  int32_t count_ = 0;
};

constexpr cohort_component kWrongKernels = sdk::accelerator<WrongKernels>("wrong_kernels", "kernels that err a little");

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.test.wrong_kernels", "1.0.0", "cohort", "Apache-2.0", kWrongKernels)
