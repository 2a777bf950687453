// The table cohort.kernels.minmax_uint8/1.
#include "decode.cuh"
#include "encode.cuh"
#include "tables.hpp"
#include "types.cuh"

namespace cohort::cuda {
namespace {

using Accelerator = cohort_accelerator*;
using Stream = const cohort_stream*;

cohort_status encode(Accelerator a, void* chunks, const void* in, int32_t dtype, uint64_t chunk_numel,
                     uint64_t num_chunks, double divisor, Stream stream) noexcept {
  return run_floating(a, stream, "encode", dtype, [&](Call& call, auto tag) {
    const float by = static_cast<float>(divisor);
    if (!(by > 0.0f)) throw sdk::invalid_argument("encode divides by " + std::to_string(divisor) + ", not above 0");
    encode_chunks<typename decltype(tag)::Type>(call, chunks, in, chunk_numel, num_chunks, by);
  });
}

cohort_status decode(Accelerator a, void* out, int32_t dtype, const void* chunks, uint64_t chunk_numel,
                     uint64_t num_chunks, Stream stream) noexcept {
  return run_floating(a, stream, "decode", dtype, [&](Call& call, auto tag) {
    decode_chunks<typename decltype(tag)::Type>(call, out, chunks, chunk_numel, num_chunks);
  });
}

cohort_status decode_add(Accelerator a, void* out, const void* start, int32_t dtype, const void* chunks,
                         uint64_t chunk_numel, uint64_t num_chunks, Stream stream) noexcept {
  return run_floating(a, stream, "decode_add", dtype, [&](Call& call, auto tag) {
    if (num_chunks == 0) throw sdk::invalid_argument("decode_add has no chunks, and needs one at least");
    add_chunks<typename decltype(tag)::Type>(call, out, start, chunks, chunk_numel, num_chunks);
  });
}

constexpr cohort_kernels_minmax_uint8_1 kTable{
    sizeof(cohort_kernels_minmax_uint8_1), 0, nullptr, encode, decode, decode_add};

}  // namespace

const cohort_kernels_minmax_uint8_1& minmax_uint8_table() {
  return kTable;
}

}  // namespace cohort::cuda
