// The codec of the cpu plugin on one core, each function beside a loop with the same reads and writes.
//
//   codec CPU_PLUGIN_FILE ISA MIBIBYTES_OF_FLOATS ROUNDS
// Prints JSON: milliseconds of each function and of its loop, the least of the rounds, which take turns.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_host.hpp"
#include "plugin_file.hpp"

#if defined(__x86_64__)
#define COHORT_BENCH_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define COHORT_BENCH_CLONES
#endif

namespace {

using Clock = std::chrono::steady_clock;

// ---- what memory allows: integers, so that nothing but reads and writes takes time

COHORT_BENCH_CLONES uint32_t read(const uint32_t* __restrict in, uint64_t n) {
  uint32_t all = 0;
  for (uint64_t i = 0; i < n; ++i) all |= in[i];
  return all;
}

COHORT_BENCH_CLONES void narrow(uint8_t* __restrict out, const uint32_t* __restrict in, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(in[i]);
}

COHORT_BENCH_CLONES void widen(uint32_t* __restrict out, const uint8_t* __restrict in, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) out[i] = in[i];
}

COHORT_BENCH_CLONES void widen_add(uint32_t* __restrict out, const uint8_t* __restrict in, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) out[i] += in[i];
}

double milliseconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

struct Pair {
  const char* name;
  std::function<void()> codec, loop;
  double codec_ms = 1e30, loop_ms = 1e30;
};

class Kernels {
 public:
  Kernels(const char* file, const char* isa)
      : vt_(*static_cast<const cohort_accelerator_vt*>(
            cohort::test::component_of(cohort::test::open_plugin(file), COHORT_KIND_ACCELERATOR).vtable)),
        object_{sizeof(cohort_accelerator), 0, &vt_, nullptr, host_.raw()} {
    const cohort_key_value option{"isa", isa};
    if (vt_.create(&object_, &option, 1) != COHORT_OK) throw std::runtime_error(host_.take_failure());
  }
  ~Kernels() { vt_.destroy(&object_); }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  const cohort_kernels_minmax_uint8_1& codec() {
    return *static_cast<const cohort_kernels_minmax_uint8_1*>(vt_.kernels(&object_, COHORT_KERNELS_MINMAX_UINT8_ID));
  }

 private:
  const cohort_accelerator_vt& vt_;
  cohort::test::FakeHost host_;
  cohort_accelerator object_;
};

void print(const std::vector<Pair>& pairs, uint64_t numel) {
  std::printf("{\"numel\": %llu", static_cast<unsigned long long>(numel));
  for (const Pair& pair : pairs) {
    std::printf(", \"%s\": {\"codec_ms\": %.4f, \"loop_ms\": %.4f}", pair.name, pair.codec_ms, pair.loop_ms);
  }
  std::printf("}\n");
}

int run(const char* file, const char* isa, uint64_t mibibytes, int rounds) {
  Kernels kernels(file, isa);
  const cohort_kernels_minmax_uint8_1& k = kernels.codec();
  const cohort_stream stream{nullptr, COHORT_DEVICE_CPU, 0};
  const uint64_t n = mibibytes * (1u << 20) / sizeof(float);
  std::vector<float> values(n), sums(n, 0.0f);
  std::vector<uint8_t> chunk(COHORT_MINMAX_UINT8_NBYTES(n), 0);
  for (uint64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i * 2654435761u % 1'000'003) * 1e-6f - 0.3f;
  auto* const words = reinterpret_cast<uint32_t*>(values.data());
  auto* const totals = reinterpret_cast<uint32_t*>(sums.data());
  uint8_t* const codes = chunk.data() + COHORT_MINMAX_UINT8_HEADER_NBYTES;
  volatile uint32_t seen = 0;
  std::vector<Pair> pairs{
      {"encode", [&] { k.encode(nullptr, chunk.data(), values.data(), COHORT_FLOAT32, n, 1, 1.0, &stream); },
       [&] {
         seen = read(words, n);
         narrow(codes, words, n);
       }},
      {"decode", [&] { k.decode(nullptr, sums.data(), COHORT_FLOAT32, chunk.data(), n, 1, &stream); },
       [&] { widen(totals, codes, n); }},
      {"decode_add",
       [&] { k.decode_add(nullptr, sums.data(), sums.data(), COHORT_FLOAT32, chunk.data(), n, 1, &stream); },
       [&] { widen_add(totals, codes, n); }},
  };
  for (int round = 0; round < rounds; ++round) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    k.encode(nullptr, chunk.data(), values.data(), COHORT_FLOAT32, n, 1, 1.0, &stream);
    for (Pair& pair : pairs) {
      pair.codec_ms = std::min(pair.codec_ms, milliseconds_of(pair.codec));
      std::fill(sums.begin(), sums.end(), 0.0f);
      pair.loop_ms = std::min(pair.loop_ms, milliseconds_of(pair.loop));
      std::fill(sums.begin(), sums.end(), 0.0f);
      k.encode(nullptr, chunk.data(), values.data(), COHORT_FLOAT32, n, 1, 1.0, &stream);
    }
  }
  print(pairs, n);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) throw std::invalid_argument("usage: codec CPU_PLUGIN_FILE ISA MIBIBYTES_OF_FLOATS ROUNDS");
  return run(argv[1], argv[2], std::stoull(argv[3]), std::stoi(argv[4]));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 2;
}
