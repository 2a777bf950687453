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
  /// One STATE buffer, without padding.
  struct Buffer {
    int32_t dtype = 0;                                    ///< COHORT_FLOAT32 ...; 0: that of the parameter
    std::map<uint32_t, std::vector<std::byte>> values{};  ///< by parameter
    bool operator==(const Buffer&) const = default;
  };
  using Buckets = std::map<std::string, Buffer>;
  Values values;                  ///< of archive/1, by layer and key: "async/rounds"
  Buckets buckets;                ///< STATE by layer and name
  std::vector<uint64_t> steps{};  ///< done, by phase; empty: the same for all, as the caller says
};

}  // namespace cohort::host
