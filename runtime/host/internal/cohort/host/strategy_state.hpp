// What the strategy of one rank keeps in a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <cohort/api/tensor.h>

namespace cohort::host {

struct StrategyState {
  /// A value of archive/1.
  struct Value {
    std::string bytes{};
    bool is_shared = false;  ///< COHORT_ARCHIVE_SHARED: the same on all ranks
    bool operator==(const Value&) const = default;
  };
  /// One STATE buffer, without padding.
  struct Buffer {
    int32_t dtype = 0;                                    ///< COHORT_FLOAT32 ...; 0: that of the parameter
    std::map<uint32_t, std::vector<std::byte>> values{};  ///< by parameter
    bool is_shared = false;                               ///< COHORT_STATE_SHARED: the same on all ranks
    bool operator==(const Buffer&) const = default;
  };
  using Values = std::map<std::string, Value, std::less<>>;
  using Buckets = std::map<std::string, Buffer>;
  using Versions = std::map<std::string, std::string, std::less<>>;
  Values values{};                ///< by layer and key: "async/rounds"
  Buckets buckets{};              ///< STATE by layer and name
  std::vector<uint64_t> steps{};  ///< done, by phase; empty: the same for all, as the caller says
  int world_size = 0;             ///< ranks of the run that saved; 0: not known
  Versions versions{};            ///< of the layers' plugins in that run, by layer
};

}  // namespace cohort::host
