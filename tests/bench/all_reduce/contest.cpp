#include "contest.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "ranks.hpp"

namespace cohort::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kBatchSeconds = 30e-6;  // the clock is read once a batch and must not count
constexpr double kMinSamples = 5, kMaxSamples = 2000;

double seconds_of_calls(Contestant& contestant, float* values, uint64_t count, uint64_t calls) {
  const auto begin = Clock::now();
  for (uint64_t i = 0; i < calls; ++i) contestant.all_reduce(values, count);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Rank 0's value, on all ranks.
double first_rank_says(Contestant& contestant, int rank, double value) {
  float agreed = rank == 0 ? static_cast<float>(value) : 0.0f;
  contestant.agree({&agreed, 1});
  return static_cast<double>(agreed);
}

void check_sum(int rank, int size, Contestant& contestant, float* values, uint64_t count) {
  constexpr uint64_t kPattern = 7;
  for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % kPattern) + static_cast<float>(rank + 1);
  contestant.all_reduce(values, count);
  first_rank_says(contestant, rank, 0);  // a contestant without a closing barrier may still be writing
  const auto of_ranks = static_cast<float>(size * (size + 1) / 2);
  for (uint64_t i = 0; i < count; ++i) {
    if (values[i] != of_ranks + static_cast<float>(size) * static_cast<float>(i % kPattern)) {
      throw std::runtime_error("wrong sum at element " + std::to_string(i) + " of " + std::to_string(count));
    }
  }
  first_rank_says(contestant, rank, 0);
  std::fill_n(values, count, 0.0f);
}

struct Amount {
  uint64_t batch;  // calls in a sample
  uint64_t samples;
};

Amount amount_for(int rank, Contestant& contestant, float* values, uint64_t count, double seconds) {
  constexpr uint64_t kFirstCalls = 4;
  const double first = seconds_of_calls(contestant, values, count, kFirstCalls) / kFirstCalls;
  const double agreed = first_rank_says(contestant, rank, first);
  const auto calls = static_cast<uint64_t>(std::clamp(seconds / 20 / agreed, 1.0, 20'000.0));
  const double more = seconds_of_calls(contestant, values, count, calls) / static_cast<double>(calls);
  const double call = first_rank_says(contestant, rank, more);
  const double batch = std::max(1.0, std::ceil(kBatchSeconds / call));
  const double samples = std::clamp(seconds / (batch * call), kMinSamples, kMaxSamples);
  return {static_cast<uint64_t>(batch), static_cast<uint64_t>(samples)};
}

/// Microseconds of a call in each sample, of the slowest rank.
std::vector<float> take_samples(int rank, int size, Contestant& contestant, float* values, uint64_t count,
                                const Amount& amount) {
  std::vector<float> taken(amount.samples * static_cast<uint64_t>(size), 0.0f);
  float* own = taken.data() + amount.samples * static_cast<uint64_t>(rank);
  for (uint64_t i = 0; i < amount.samples; ++i) {
    const double seconds = seconds_of_calls(contestant, values, count, amount.batch);
    own[i] = static_cast<float>(seconds * 1e6 / static_cast<double>(amount.batch));
  }
  contestant.agree(taken);
  std::vector<float> slowest(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(amount.samples));
  for (uint64_t i = 0; i < taken.size(); ++i) {
    slowest[i % amount.samples] = std::max(slowest[i % amount.samples], taken[i]);
  }
  return slowest;
}

void pin_to_core_of(int rank) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  int skip = rank % CPU_COUNT(&usable);
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &usable) || skip-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

std::vector<uint64_t> parse_sizes(const std::string& text) {
  std::vector<uint64_t> sizes;
  std::istringstream list(text);
  for (std::string size; std::getline(list, size, ',');) sizes.push_back(std::stoull(size));
  return sizes;
}

}  // namespace

void Contestant::Free::operator()(float* memory) const {
  std::free(memory);
}

float* Contestant::memory(uint64_t nbytes) {
  constexpr std::size_t kAlign = 64;
  ordinary_.reset();
  ordinary_.reset(static_cast<float*>(std::aligned_alloc(kAlign, (nbytes + kAlign - 1) / kAlign * kAlign)));
  if (!ordinary_) throw std::bad_alloc();
  std::memset(ordinary_.get(), 0, nbytes);
  return ordinary_.get();
}

std::string Contest::option(const std::string& name, const std::string& missing) const {
  const auto found = own.find(name);
  return found == own.end() ? missing : found->second;
}

Contest parse_contest(int argc, char** argv) {
  Contest contest;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto equals = argument.find('=');
    if (!argument.starts_with("--") || equals == std::string_view::npos) {
      throw std::invalid_argument("'" + std::string(argument) + "' is not --NAME=VALUE");
    }
    const std::string name(argument.substr(2, equals - 2)), value(argument.substr(equals + 1));
    if (name == "ranks") {
      contest.ranks = std::stoi(value);
    } else if (name == "sizes") {
      contest.sizes = parse_sizes(value);
    } else if (name == "seconds") {
      contest.seconds = std::stod(value);
    } else {
      contest.own[name] = value;
    }
  }
  if (contest.sizes.empty()) throw std::invalid_argument("--sizes=BYTES[,BYTES...] is missing");
  return contest;
}

void compete(int rank, int size, const Contest& contest, Contestant& contestant) {
  pin_to_core_of(rank);
  for (const uint64_t nbytes : contest.sizes) {
    const uint64_t count = nbytes / sizeof(float);
    float* values = contestant.memory(nbytes);
    check_sum(rank, size, contestant, values, count);
    const Amount amount = amount_for(rank, contestant, values, count, contest.seconds);
    auto samples = take_samples(rank, size, contestant, values, count, amount);
    if (rank != 0) continue;
    std::sort(samples.begin(), samples.end());
    std::printf(R"({"bytes": %llu, "min_us": %.4f, "median_us": %.4f, "samples": %zu})"
                "\n",
                static_cast<unsigned long long>(nbytes), static_cast<double>(samples.front()),
                static_cast<double>(samples[samples.size() / 2]), samples.size());
    std::fflush(stdout);
  }
}

int compete_in_processes(int argc, char** argv, const std::function<MakeContestant(const Contest&)>& prepare) try {
  const Contest contest = parse_contest(argc, argv);
  const MakeContestant make = prepare(contest);
  const auto ends =
      test::run_as_processes(contest.ranks, [&](int rank) { compete(rank, contest.ranks, contest, *make(rank)); });
  bool all_done = true;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (ends[rank].is_ok) continue;
    all_done = false;
    std::fprintf(stderr, "rank %zu failed (signal %d): %s\n", rank, ends[rank].signal, ends[rank].error.c_str());
  }
  return all_done ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 2;
}

}  // namespace cohort::bench
