// Times a collective plugin's all_reduce (float32, sum, in place) between processes: collective_bench --plugin=FILE
// [ranks].
//
// For each size: microseconds, minimum and median over repetitions, in memory from alloc and in ordinary memory.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fork_store.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"
#include "ranks.hpp"

namespace {

using namespace cohort::test;
using Clock = std::chrono::steady_clock;

struct Times {
  double min_us;
  double median_us;
};

Times time_all_reduce(RankComm& comm, float* values, uint64_t count) {
  const uint64_t nbytes = count * sizeof(float);
  const int repetitions = nbytes <= (1 << 20) ? 2000 : nbytes <= (8 << 20) ? 200 : 40;
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    comm.barrier();
    const auto begin = Clock::now();
    comm.all_reduce(values, values, COHORT_FLOAT32, count, COHORT_REDUCE_SUM);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

/// One core for each rank, in turn; after connecting, as a collective may look at the cores that it can use.
void pin(int rank) {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (::sched_getaffinity(0, sizeof all, &all) != 0) return;
  int skip = rank % CPU_COUNT(&all);
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || skip-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

void run_rank(const cohort_component& component, cohort_store* store, int rank, int size) {
  RankComm comm(component, store, rank, size);
  pin(rank);
  if (rank == 0) std::printf("%10s %12s %12s %12s %12s\n", "bytes", "alloc min", "median", "other min", "median");
  constexpr uint64_t kSizesKib[] = {1, 4, 16, 64, 256, 1024, 4096, 16384, 25600, 65536};
  for (const uint64_t kib : kSizesKib) {
    const uint64_t count = kib * 1024 / sizeof(float);
    auto* memory = static_cast<float*>(comm.alloc(count * sizeof(float)));
    std::fill(memory, memory + count, 0.0f);
    std::vector<float> ordinary(count);
    const Times shared = time_all_reduce(comm, memory, count);
    const Times staged = time_all_reduce(comm, ordinary.data(), count);
    if (rank == 0) {
      std::printf("%10llu %12.2f %12.2f %12.2f %12.2f\n", static_cast<unsigned long long>(kib << 10), shared.min_us,
                  shared.median_us, staged.min_us, staged.median_us);
      std::fflush(stdout);
    }
    comm.barrier();
    comm.free(memory);
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::string_view kFlag = "--plugin=";
  std::string file;
  int size = 2;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kFlag.size()) == kFlag) {
      file = argument.substr(kFlag.size());
    } else {
      size = std::atoi(argv[i]);
    }
  }
  if (file.empty() || size < 1) {
    std::fputs("usage: collective_bench --plugin=FILE [ranks]\n", stderr);
    return 2;
  }
  const cohort_component& component = component_of(open_plugin(file), COHORT_KIND_COLLECTIVE);
  ForkStore store;
  const auto ends = run_as_processes(size, [&](int rank) { run_rank(component, store.handle(), rank, size); });
  for (const RankEnd& end : ends) {
    if (!end.is_ok) std::fprintf(stderr, "a rank failed: %s\n", end.error.c_str());
  }
  return std::all_of(ends.begin(), ends.end(), [](const RankEnd& end) { return end.is_ok; }) ? 0 : 1;
}
