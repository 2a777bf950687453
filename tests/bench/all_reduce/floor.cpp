// The floor: the same reduction by threads on shared pages, with one spin barrier a call. Each thread sums a slice of
// all buffers and writes it to all: 2 x ranks x bytes cross the memory bus, which no in-place all-reduce can avoid.
//
//   all_reduce_floor + contest flags
// With more ranks than cores, each core's thread stands for several ranks: a limit that ranks which must be scheduled
// cannot reach.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include "contest.hpp"
#include "ranks.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#define COHORT_BENCH_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define COHORT_BENCH_CLONES
#endif

namespace {

using cohort::bench::Contest;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

class SpinBarrier {
 public:
  explicit SpinBarrier(int threads) : arrived_(static_cast<std::size_t>(threads)) {}

  void wait(int thread) {
    auto& own = arrived_[static_cast<std::size_t>(thread)].count;
    const uint64_t round = own.load(std::memory_order_relaxed) + 1;
    own.store(round, std::memory_order_release);
    for (const auto& other : arrived_) {
      while (other.count.load(std::memory_order_acquire) < round) pause();
    }
  }

 private:
  struct alignas(128) Arrived {  // adjacent lines are fetched in pairs
    std::atomic<uint64_t> count{0};
  };
  std::vector<Arrived> arrived_;
};

COHORT_BENCH_CLONES void sum2(float* __restrict a, float* __restrict b, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) a[i] = b[i] = a[i] + b[i];
}

COHORT_BENCH_CLONES void sum4(float* __restrict a, float* __restrict b, float* __restrict c, float* __restrict d,
                              uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) a[i] = b[i] = c[i] = d[i] = a[i] + b[i] + c[i] + d[i];
}

/// Zeros on pages that could be shared between processes.
class Pages {
 public:
  explicit Pages(uint64_t nbytes) : nbytes_(nbytes) {
    memory_ = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Pages() { ::munmap(memory_, nbytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  float* begin() const { return static_cast<float*>(memory_); }

 private:
  uint64_t nbytes_;
  void* memory_;
};

struct Shared {
  Shared(int num_ranks, int num_threads) : ranks(num_ranks), threads(num_threads), barrier(num_threads) {}
  const int ranks, threads;
  SpinBarrier barrier;
  std::vector<std::unique_ptr<Pages>> buffers;  // one for each rank
  std::vector<std::span<float>> notes;
};

class FloorThread final : public cohort::bench::Contestant {
 public:
  FloorThread(Shared& shared, int thread) : shared_(shared), thread_(thread) {}

  float* memory(uint64_t nbytes) override {
    shared_.barrier.wait(thread_);
    if (thread_ == 0) {
      shared_.buffers.clear();
      for (int rank = 0; rank < shared_.ranks; ++rank) shared_.buffers.push_back(std::make_unique<Pages>(nbytes));
    }
    shared_.barrier.wait(thread_);
    return shared_.buffers[static_cast<std::size_t>(thread_)]->begin();
  }

  // No barrier at the end: the next call's stands for it. Buffers of ranks that have no thread are never set back; they
  // soon hold infinities, which cost a sum no more than zeros.
  void all_reduce(float*, uint64_t count) override {
    shared_.barrier.wait(thread_);
    const auto threads = static_cast<uint64_t>(shared_.threads), thread = static_cast<uint64_t>(thread_);
    const uint64_t begin = count * thread / threads, length = count * (thread + 1) / threads - begin;
    const auto slice = [&](std::size_t rank) { return shared_.buffers[rank]->begin() + begin; };
    if (shared_.ranks == 2) {
      sum2(slice(0), slice(1), length);
    } else {
      sum4(slice(0), slice(1), slice(2), slice(3), length);
    }
  }

  void agree(std::span<float> values) override {
    if (thread_ == 0) shared_.notes.assign(static_cast<std::size_t>(shared_.threads), {});
    shared_.barrier.wait(thread_);
    shared_.notes[static_cast<std::size_t>(thread_)] = values;
    shared_.barrier.wait(thread_);
    std::vector<float> sums(values.size(), 0.0f);
    for (const auto note : shared_.notes) {
      std::transform(sums.begin(), sums.end(), note.begin(), sums.begin(), std::plus<>());
    }
    shared_.barrier.wait(thread_);
    std::copy(sums.begin(), sums.end(), values.begin());
    shared_.barrier.wait(thread_);
  }

 private:
  Shared& shared_;
  const int thread_;
};

}  // namespace

int main(int argc, char** argv) try {
  const Contest contest = cohort::bench::parse_contest(argc, argv);
  if (contest.ranks != 2 && contest.ranks != 4) throw std::invalid_argument("the floor is for --ranks=2 or 4");
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = std::min(contest.ranks, cores);
  Shared shared(contest.ranks, threads);
  cohort::test::run_as_threads(threads, [&](int thread) {
    FloorThread contestant(shared, thread);
    cohort::bench::compete(thread, threads, contest, contestant);
  });
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 2;
}
