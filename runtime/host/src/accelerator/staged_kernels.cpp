// Kernels that a device lacks: on copies of their arguments in pinned memory.
//
// Each is the same three moves: copies in, the CPU's kernel, copies back, with a wait after the first and the last.
// Reductions need all of their elements at once to give the CPU's bits, so nothing is cut into pieces.
#include <string>
#include <utility>
#include <vector>

#include <cohort/sdk/dtype.hpp>

#include "accelerator/accelerator.hpp"
#include "accelerator/kernel_tables.hpp"
#include "host_object/guarded.hpp"

namespace cohort::host {
namespace {

constexpr cohort_stream kCpu{nullptr, COHORT_DEVICE_CPU, 0};

class StagedCall {
 public:
  StagedCall(cohort_accelerator* a, const cohort_stream& stream) : copies_(Accelerator::of(a).pinned(), stream) {}

  /// Return the place in CPU memory of an argument on the device. Inputs are copied there, outputs back by finish().
  const void* in(const void* device, uint64_t nbytes) {
    void* const place = take(nbytes);
    copies_.to_host(place, device, nbytes);
    return place;
  }
  void* out(void* device, uint64_t nbytes) {
    void* const place = take(nbytes);
    back_.push_back({place, device, nbytes});
    return place;
  }
  void* in_out(void* device, uint64_t nbytes) {
    void* const place = out(device, nbytes);
    copies_.to_host(place, device, nbytes);
    return place;
  }

  /// Waits for the copies in.
  void begin() { copies_.wait(); }
  /// Copies the outputs back, and waits, because their memory is reused.
  void finish() {
    for (const auto& [place, device, nbytes] : back_) copies_.to_device(device, place, nbytes);
    copies_.wait();
  }

 private:
  struct Back {
    void* place;
    void* device;
    uint64_t nbytes;
  };

  StagedCopies copies_;
  std::vector<Back> back_;

  void* take(uint64_t nbytes) {
    constexpr uint64_t kLeast = 4096;
    return copies_.take(nbytes, kLeast);
  }
};

// `prepare(call)` tells what is copied, and returns what then computes.
template <class Prepare>
cohort_status staged(cohort_accelerator* a, const char* kernel, const cohort_stream* stream, Prepare prepare) noexcept {
  return guarded(a->host, [&] {
    if (!Accelerator::of(a).may_stage(kernel)) {
      const std::string text = "the accelerator has neither the kernel " + std::string(kernel) +
                               " nor pinned memory through which the CPU could run it; give it one of them";
      return a->host->fail(a->host, COHORT_UNIMPLEMENTED, text.c_str());
    }
    StagedCall call(a, *stream);
    const auto compute = prepare(call);
    call.begin();
    const cohort_status status = compute();
    if (status == COHORT_OK) call.finish();
    return status;
  });
}

const KernelTables& cpu() {
  static const KernelTables kTables = portable_kernels(nullptr);
  return kTables;
}

uint64_t nbytes_of(int32_t dtype, uint64_t n) {
  return n * sdk::size_of(dtype);
}

cohort_status fill(cohort_accelerator* a, void* out, int32_t dtype, uint64_t n, double value,
                   const cohort_stream* stream) noexcept {
  return staged(a, "fill", stream, [=](StagedCall& call) {
    void* const to = call.out(out, nbytes_of(dtype, n));
    return [=] { return cpu().core.fill(a, to, dtype, n, value, &kCpu); };
  });
}

cohort_status copy(cohort_accelerator* a, void* out, const void* in, uint64_t nbytes,
                   const cohort_stream* stream) noexcept {
  return staged(a, "copy", stream, [=](StagedCall& call) {
    const void* const from = call.in(in, nbytes);
    void* const to = call.out(out, nbytes);
    return [=] { return cpu().core.copy(a, to, from, nbytes, &kCpu); };
  });
}

cohort_status scale(cohort_accelerator* a, void* out, const void* in, int32_t dtype, uint64_t n, double factor,
                    const cohort_stream* stream) noexcept {
  return staged(a, "scale", stream, [=](StagedCall& call) {
    const void* const from = call.in(in, nbytes_of(dtype, n));
    void* const to = call.out(out, nbytes_of(dtype, n));
    return [=] { return cpu().core.scale(a, to, from, dtype, n, factor, &kCpu); };
  });
}

cohort_status axpby(cohort_accelerator* a, void* out, const void* x, int32_t dtype, uint64_t n, double p, double q,
                    const cohort_stream* stream) noexcept {
  return staged(a, "axpby", stream, [=](StagedCall& call) {
    const void* const from = call.in(x, nbytes_of(dtype, n));
    void* const to = call.in_out(out, nbytes_of(dtype, n));
    return [=] { return cpu().core.axpby(a, to, from, dtype, n, p, q, &kCpu); };
  });
}

cohort_status cast(cohort_accelerator* a, void* out, int32_t out_dtype, const void* in, int32_t in_dtype, uint64_t n,
                   const cohort_stream* stream) noexcept {
  return staged(a, "cast", stream, [=](StagedCall& call) {
    const void* const from = call.in(in, nbytes_of(in_dtype, n));
    void* const to = call.out(out, nbytes_of(out_dtype, n));
    return [=] { return cpu().core.cast(a, to, out_dtype, from, in_dtype, n, &kCpu); };
  });
}

cohort_status sum_of_n(cohort_accelerator* a, void* out, const void* const* inputs, uint64_t num_inputs, int32_t dtype,
                       uint64_t n, double factor, const cohort_stream* stream) noexcept {
  return staged(a, "sum_of_n", stream, [=](StagedCall& call) {
    std::vector<const void*> from;
    for (uint64_t i = 0; i < num_inputs; ++i) from.push_back(call.in(inputs[i], nbytes_of(dtype, n)));
    void* const to = call.out(out, nbytes_of(dtype, n));
    return [=, from = std::move(from)] {
      return cpu().core.sum_of_n(a, to, from.data(), from.size(), dtype, n, factor, &kCpu);
    };
  });
}

cohort_status square_sum(cohort_accelerator* a, const void* in, int32_t dtype, uint64_t n, double* result,
                         const cohort_stream* stream) noexcept {
  return staged(a, "square_sum", stream, [=](StagedCall& call) {
    const void* const from = call.in(in, nbytes_of(dtype, n));
    auto* const to = static_cast<double*>(call.out(result, sizeof *result));
    return [=] { return cpu().core.square_sum(a, from, dtype, n, to, &kCpu); };
  });
}

cohort_status dot(cohort_accelerator* a, const void* x, const void* y, int32_t dtype, uint64_t n, double* result,
                  const cohort_stream* stream) noexcept {
  return staged(a, "dot", stream, [=](StagedCall& call) {
    const void* const first = call.in(x, nbytes_of(dtype, n));
    const void* const second = call.in(y, nbytes_of(dtype, n));
    auto* const to = static_cast<double*>(call.out(result, sizeof *result));
    return [=] { return cpu().core.dot(a, first, second, dtype, n, to, &kCpu); };
  });
}

cohort_status found_inf(cohort_accelerator* a, const void* in, int32_t dtype, uint64_t n, uint32_t* found,
                        const cohort_stream* stream) noexcept {
  return staged(a, "found_inf", stream, [=](StagedCall& call) {
    const void* const from = call.in(in, nbytes_of(dtype, n));
    auto* const to = static_cast<uint32_t*>(call.out(found, sizeof *found));
    return [=] { return cpu().core.found_inf(a, from, dtype, n, to, &kCpu); };
  });
}

uint64_t chunks_nbytes(uint64_t chunk_numel, uint64_t num_chunks) {
  return num_chunks * COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
}

// Chunks are copied in first: the bytes behind their codes are to stay as they are.
cohort_status encode(cohort_accelerator* a, void* chunks, const void* in, int32_t dtype, uint64_t chunk_numel,
                     uint64_t num_chunks, double divisor, const cohort_stream* stream) noexcept {
  return staged(a, "minmax_uint8.encode", stream, [=](StagedCall& call) {
    const void* const from = call.in(in, nbytes_of(dtype, chunk_numel * num_chunks));
    void* const to = call.in_out(chunks, chunks_nbytes(chunk_numel, num_chunks));
    return [=] { return cpu().minmax_uint8.encode(a, to, from, dtype, chunk_numel, num_chunks, divisor, &kCpu); };
  });
}

cohort_status decode(cohort_accelerator* a, void* out, int32_t dtype, const void* chunks, uint64_t chunk_numel,
                     uint64_t num_chunks, const cohort_stream* stream) noexcept {
  return staged(a, "minmax_uint8.decode", stream, [=](StagedCall& call) {
    const void* const from = call.in(chunks, chunks_nbytes(chunk_numel, num_chunks));
    void* const to = call.out(out, nbytes_of(dtype, chunk_numel * num_chunks));
    return [=] { return cpu().minmax_uint8.decode(a, to, dtype, from, chunk_numel, num_chunks, &kCpu); };
  });
}

cohort_status decode_add(cohort_accelerator* a, void* out, const void* start, int32_t dtype, const void* chunks,
                         uint64_t chunk_numel, uint64_t num_chunks, const cohort_stream* stream) noexcept {
  return staged(a, "minmax_uint8.decode_add", stream, [=](StagedCall& call) {
    const void* const from = call.in(chunks, chunks_nbytes(chunk_numel, num_chunks));
    const void* const first = start ? call.in(start, nbytes_of(dtype, chunk_numel)) : nullptr;
    void* const to = call.out(out, nbytes_of(dtype, chunk_numel));
    return [=] { return cpu().minmax_uint8.decode_add(a, to, first, dtype, from, chunk_numel, num_chunks, &kCpu); };
  });
}

cohort_status adam_step(cohort_accelerator* a, void* weight, const void* momentum, const void* square, int32_t dtype,
                        uint64_t n, double keep, double rate, double correction, double eps,
                        const cohort_stream* stream) noexcept {
  return staged(a, "adam.step", stream, [=](StagedCall& call) {
    const uint64_t nbytes = nbytes_of(dtype, n);
    const void *const m = call.in(momentum, nbytes), *const v = call.in(square, nbytes);
    void* const w = call.in_out(weight, nbytes);
    return [=] { return cpu().adam.step(a, w, m, v, dtype, n, keep, rate, correction, eps, &kCpu); };
  });
}

cohort_status ring_change(cohort_accelerator* a, void* x, const void* left, const void* right, const void* own,
                          int32_t dtype, uint64_t n, const cohort_stream* stream) noexcept {
  return staged(a, "change", stream, [=](StagedCall& call) {
    const uint64_t nbytes = nbytes_of(dtype, n);
    const void *const l = call.in(left, nbytes), *const r = call.in(right, nbytes), *const w = call.in(own, nbytes);
    void* const z = call.in_out(x, nbytes);
    return [=] { return cpu().ring.change(a, z, l, r, w, dtype, n, &kCpu); };
  });
}

}  // namespace

KernelTables staged_kernels(cohort_accelerator* a) {
  return {{sizeof(cohort_kernels_core_1), 0, a, fill, copy, scale, axpby, cast, sum_of_n, square_sum, dot, found_inf},
          {sizeof(cohort_kernels_minmax_uint8_1), 0, a, encode, decode, decode_add},
          {sizeof(cohort_kernels_adam_1), 0, a, adam_step},
          {sizeof(cohort_kernels_ring_1), 0, a, ring_change}};
}

}  // namespace cohort::host
