#include "kernels.hpp"

#include <vector>

#include <cohort/api/accelerator.h>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/portable/adam_kernels.hpp>
#include <cohort/sdk/portable/core_kernels.hpp>
#include <cohort/sdk/portable/minmax_uint8_kernels.hpp>
#include <cohort/sdk/portable/ring_kernels.hpp>

#include "launch.hpp"

namespace fake {
namespace {

namespace sdk = cohort::sdk;

struct AnyProcessor {};
using Core = sdk::portable::CoreKernels<AnyProcessor>;
using Reductions = sdk::portable::Reductions<AnyProcessor>;
using MinmaxUint8 = sdk::portable::MinmaxUint8Kernels<AnyProcessor>;

using Accelerator = cohort_accelerator*;
using Stream = const cohort_stream*;

uint64_t nbytes_of(int32_t dtype, uint64_t n) {
  return n * sdk::size_of(dtype);
}

// Enqueues what `compute` does and turns a refused launch into a message for the host.
template <class Compute>
cohort_status enqueue(Accelerator a, Stream stream, const char* name, const Accesses& accesses,
                      Compute compute) noexcept {
  return sdk::detail::guard(a->host, [&] { launch(*stream, name, accesses, compute); });
}

// Refuses arguments in the call itself, since the failure of enqueued work is found at the next wait only.
cohort_status refuse(Accelerator a, const std::string& text, cohort_status status = COHORT_INVALID_ARGUMENT) {
  return a->host->fail(a->host, status, ("fake device: " + text).c_str());
}

cohort_status refuse_type(Accelerator a, int32_t dtype, bool is_known) {
  if (is_known) return COHORT_OK;
  return refuse(a, "no kernel for elements of type " + std::to_string(dtype), sdk::refusal_of(dtype));
}

cohort_status refuse_integers(Accelerator a, int32_t dtype) {
  return refuse_type(a, dtype, sdk::is_floating(dtype));
}

cohort_status fill(Accelerator a, void* out, int32_t dtype, uint64_t n, double value, Stream stream) noexcept {
  if (const cohort_status status = refuse_type(a, dtype, sdk::size_of(dtype) > 0)) return status;
  return enqueue(a, stream, "fill", Accesses().writes(out, nbytes_of(dtype, n)),
                 [=] { return Core::fill(nullptr, contents(out), dtype, n, value, nullptr); });
}

cohort_status copy(Accelerator a, void* out, const void* in, uint64_t nbytes, Stream stream) noexcept {
  return enqueue(a, stream, "copy", Accesses().reads(in, nbytes).writes(out, nbytes),
                 [=] { return Core::copy(nullptr, contents(out), contents(in), nbytes, nullptr); });
}

cohort_status scale(Accelerator a, void* out, const void* in, int32_t dtype, uint64_t n, double factor,
                    Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  const uint64_t nbytes = nbytes_of(dtype, n);
  return enqueue(a, stream, "scale", Accesses().reads(in, nbytes).writes(out, nbytes),
                 [=] { return Core::scale(nullptr, contents(out), contents(in), dtype, n, factor, nullptr); });
}

cohort_status axpby(Accelerator a, void* out, const void* x, int32_t dtype, uint64_t n, double p, double q,
                    Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  const uint64_t nbytes = nbytes_of(dtype, n);
  return enqueue(a, stream, "axpby", Accesses().reads(x, nbytes).reads(out, nbytes).writes(out, nbytes),
                 [=] { return Core::axpby(nullptr, contents(out), contents(x), dtype, n, p, q, nullptr); });
}

cohort_status cast(Accelerator a, void* out, int32_t out_dtype, const void* in, int32_t in_dtype, uint64_t n,
                   Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, out_dtype)) return status;
  if (const cohort_status status = refuse_integers(a, in_dtype)) return status;
  return enqueue(a, stream, "cast", Accesses().reads(in, nbytes_of(in_dtype, n)).writes(out, nbytes_of(out_dtype, n)),
                 [=] { return Core::cast(nullptr, contents(out), out_dtype, contents(in), in_dtype, n, nullptr); });
}

cohort_status sum_of_n(Accelerator a, void* out, const void* const* inputs, uint64_t num_inputs, int32_t dtype,
                       uint64_t n, double factor, Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  if (num_inputs == 0) return refuse(a, "a sum of no inputs");
  Accesses accesses;
  std::vector<const void*> from(inputs, inputs + num_inputs);
  for (const void*& input : from) {
    accesses.reads(input, nbytes_of(dtype, n));
    input = contents(input);
  }
  accesses.writes(out, nbytes_of(dtype, n));
  return enqueue(a, stream, "sum_of_n", accesses, [=] {
    return Core::sum_of_n(nullptr, contents(out), from.data(), from.size(), dtype, n, factor, nullptr);
  });
}

cohort_status square_sum(Accelerator a, const void* in, int32_t dtype, uint64_t n, double* result,
                         Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  return enqueue(a, stream, "square_sum", Accesses().reads(in, nbytes_of(dtype, n)).writes(result, sizeof *result),
                 [=] { return Reductions::square_sum(nullptr, contents(in), dtype, n, contents(result), nullptr); });
}

cohort_status dot(Accelerator a, const void* x, const void* y, int32_t dtype, uint64_t n, double* result,
                  Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  const uint64_t nbytes = nbytes_of(dtype, n);
  return enqueue(a, stream, "dot", Accesses().reads(x, nbytes).reads(y, nbytes).writes(result, sizeof *result), [=] {
    return Reductions::dot(nullptr, contents(x), contents(y), dtype, n, contents(result), nullptr);
  });
}

cohort_status found_inf(Accelerator a, const void* in, int32_t dtype, uint64_t n, uint32_t* found,
                        Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  return enqueue(a, stream, "found_inf", Accesses().reads(in, nbytes_of(dtype, n)).writes(found, sizeof *found),
                 [=] { return Reductions::found_inf(nullptr, contents(in), dtype, n, contents(found), nullptr); });
}

uint64_t chunks_nbytes(uint64_t chunk_numel, uint64_t num_chunks) {
  return num_chunks * COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
}

cohort_status encode(Accelerator a, void* chunks, const void* in, int32_t dtype, uint64_t chunk_numel,
                     uint64_t num_chunks, double divisor, Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  if (!(divisor > 0)) return refuse(a, "a divisor that is not above 0");
  const Accesses accesses = Accesses()
                                .reads(in, nbytes_of(dtype, chunk_numel * num_chunks))
                                .writes(chunks, chunks_nbytes(chunk_numel, num_chunks));
  return enqueue(a, stream, "encode", accesses, [=] {
    return MinmaxUint8::encode(nullptr, contents(chunks), contents(in), dtype, chunk_numel, num_chunks, divisor,
                               nullptr);
  });
}

cohort_status decode(Accelerator a, void* out, int32_t dtype, const void* chunks, uint64_t chunk_numel,
                     uint64_t num_chunks, Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  const Accesses accesses = Accesses()
                                .reads(chunks, chunks_nbytes(chunk_numel, num_chunks))
                                .writes(out, nbytes_of(dtype, chunk_numel * num_chunks));
  return enqueue(a, stream, "decode", accesses, [=] {
    return MinmaxUint8::decode(nullptr, contents(out), dtype, contents(chunks), chunk_numel, num_chunks, nullptr);
  });
}

cohort_status decode_add(Accelerator a, void* out, const void* start, int32_t dtype, const void* chunks,
                         uint64_t chunk_numel, uint64_t num_chunks, Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  if (num_chunks == 0) return refuse(a, "a sum of no chunks");
  const uint64_t nbytes = nbytes_of(dtype, chunk_numel);
  const Accesses accesses = Accesses()
                                .reads(chunks, chunks_nbytes(chunk_numel, num_chunks))
                                .reads(start, start ? nbytes : 0)
                                .writes(out, nbytes);
  return enqueue(a, stream, "decode_add", accesses, [=] {
    return MinmaxUint8::decode_add(nullptr, contents(out), contents(start), dtype, contents(chunks), chunk_numel,
                                   num_chunks, nullptr);
  });
}

cohort_status adam_step(Accelerator a, void* weight, const void* momentum, const void* square, int32_t dtype,
                        uint64_t n, double keep, double rate, double correction, double eps, Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  const uint64_t nbytes = nbytes_of(dtype, n);
  const Accesses accesses =
      Accesses().reads(momentum, nbytes).reads(square, nbytes).reads(weight, nbytes).writes(weight, nbytes);
  return enqueue(a, stream, "adam", accesses, [=] {
    return sdk::portable::AdamKernels<AnyProcessor>::step(nullptr, contents(weight), contents(momentum),
                                                          contents(square), dtype, n, keep, rate, correction, eps,
                                                          nullptr);
  });
}

cohort_status ring_change(Accelerator a, void* x, const void* left, const void* right, const void* own, int32_t dtype,
                          uint64_t n, Stream stream) noexcept {
  if (const cohort_status status = refuse_integers(a, dtype)) return status;
  const uint64_t nbytes = nbytes_of(dtype, n);
  const Accesses accesses =
      Accesses().reads(left, nbytes).reads(right, nbytes).reads(own, nbytes).reads(x, nbytes).writes(x, nbytes);
  return enqueue(a, stream, "ring change", accesses, [=] {
    return sdk::portable::RingKernels<AnyProcessor>::change(nullptr, contents(x), contents(left), contents(right),
                                                            contents(own), dtype, n, nullptr);
  });
}

constexpr cohort_kernels_core_1 kCore{.struct_size = sizeof(cohort_kernels_core_1),
                                      .reserved0 = 0,
                                      .accelerator = nullptr,
                                      .fill = fill,
                                      .copy = copy,
                                      .scale = scale,
                                      .axpby = axpby,
                                      .cast = cast,
                                      .sum_of_n = sum_of_n,
                                      .square_sum = square_sum,
                                      .dot = dot,
                                      .found_inf = found_inf};
constexpr cohort_kernels_minmax_uint8_1 kMinmaxUint8{
    sizeof(cohort_kernels_minmax_uint8_1), 0, nullptr, encode, decode, decode_add};
constexpr cohort_kernels_adam_1 kAdam{sizeof(cohort_kernels_adam_1), 0, nullptr, adam_step};
constexpr cohort_kernels_ring_1 kRing{sizeof(cohort_kernels_ring_1), 0, nullptr, ring_change};

}  // namespace

const void* kernels(std::string_view id) {
  if (id == COHORT_KERNELS_CORE_ID) return &kCore;
  if (id == COHORT_KERNELS_MINMAX_UINT8_ID) return &kMinmaxUint8;
  if (id == COHORT_KERNELS_ADAM_ID) return &kAdam;
  return id == COHORT_KERNELS_RING_ID ? &kRing : nullptr;
}

}  // namespace fake
