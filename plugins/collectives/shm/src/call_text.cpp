#include "call_text.hpp"

#include <iterator>

#include <cohort/sdk/dtype.hpp>

namespace cohort::shm {

const char* name_of(OpKind kind) {
  constexpr const char* kNames[] = {"nothing", "connect",   "split",      "alloc",          "exchange", "all_reduce",
                                    "reduce",  "broadcast", "all_gather", "reduce_scatter", "barrier"};
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "an unknown operation";
}

std::string describe(const Call& call) {
  const std::string elements = std::string(sdk::name_of(call.dtype)) + ", " + std::to_string(call.count) + " elements";
  const std::string name = name_of(call.kind);
  switch (call.kind) {
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
      return name + "(" + sdk::name_of_reduce(call.reduce) + ", " + elements + ")";
    case OpKind::kReduce:
      return name + "(" + sdk::name_of_reduce(call.reduce) + ", " + elements + ", root " + std::to_string(call.root) +
             ")";
    case OpKind::kBroadcast:
      return name + "(" + elements + ", root " + std::to_string(call.root) + ")";
    case OpKind::kAllGather:
      return name + "(" + elements + ")";
    case OpKind::kAlloc:
      return name + "(" + std::to_string(call.count) + " bytes)";
    default:
      return name;
  }
}

}  // namespace cohort::shm
