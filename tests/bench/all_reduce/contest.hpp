// The all-reduce contest: float32, sum, in place. Every contestant in C++ is measured by the one loop here.
//
// A sample is a batch of back-to-back calls, at least 30 us long, divided by their number; it counts as what the
// slowest rank took. Threads: each rank competes on the thread that calls compete().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cohort::bench {

/// One rank of an implementation.
class Contestant {
 public:
  virtual ~Contestant() = default;
  /// Zeros that all_reduce works on, 64-byte aligned; valid until the next call. Collective. The default: ordinary
  /// memory.
  virtual float* memory(uint64_t nbytes);
  /// What is measured.
  virtual void all_reduce(float* values, uint64_t count) = 0;
  /// Sums a few values over the ranks outside of the measured time, and waits for all of them.
  virtual void agree(std::span<float> values) { all_reduce(values.data(), values.size()); }

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float, Free> ordinary_;
};

struct Contest {
  int ranks = 2;
  std::vector<uint64_t> sizes;  ///< bytes
  double seconds = 0.2;         ///< to measure each size for, about
  std::map<std::string, std::string> own;

  /// A flag that only this contestant has; `missing` where it is not given.
  std::string option(const std::string& name, const std::string& missing = "") const;
};

/// Reads `--ranks=2 --sizes=1024,65536 --seconds=0.2 [--NAME=VALUE...]`; throws std::invalid_argument.
Contest parse_contest(int argc, char** argv);

/// Pins the calling thread to core rank % cores, checks a sum, measures every size. Rank 0 prints one JSON object for
/// each size. Collective; throws std::runtime_error where a sum is wrong.
void compete(int rank, int size, const Contest& contest, Contestant& contestant);

using MakeContestant = std::function<std::unique_ptr<Contestant>(int rank)>;
/// The main function of a contestant whose ranks are forked: `prepare` runs before, and gives what makes a rank.
/// Returns the exit code.
int compete_in_processes(int argc, char** argv, const std::function<MakeContestant(const Contest&)>& prepare);

}  // namespace cohort::bench
