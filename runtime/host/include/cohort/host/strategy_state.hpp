// What the strategy of one rank keeps in a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cohort::host {

struct StrategyState {
  using Values = std::map<std::string, std::string, std::less<>>;
  using Buckets = std::map<std::string, std::map<uint32_t, std::vector<std::byte>>>;
  Values values;                  ///< of archive/1, by key
  Buckets buckets;                ///< STATE by name, then by parameter
  std::vector<uint64_t> steps{};  ///< done, by phase; empty: the same for all, as the caller says
};

}  // namespace cohort::host
