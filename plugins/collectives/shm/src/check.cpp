#include <string>

#include <cohort/sdk/dtype.hpp>

#include "call_text.hpp"
#include "operations.hpp"

namespace cohort::shm {

namespace {

void require(bool condition, const std::string& problem) {
  if (!condition) throw sdk::invalid_argument("shm " + problem);
}

}  // namespace

void check_elements(const cohort_op_args& args, const char* operation) {
  const std::string name = operation;
  require(sdk::size_of(args.dtype) != 0, name + " does not know data type " + std::to_string(args.dtype));
  require(args.stream.device_type == COHORT_DEVICE_CPU || args.stream.device_type == 0,
          name + " works on CPU memory only; choose another collective for this device");
  require(args.count == 0 || (args.input && args.output), name + " was given no memory");
  require(args.count <= (uint64_t{1} << 56), name + " was given an impossible number of elements");
}

void check_all_reduce(const cohort_op_args& args) {
  check_elements(args, "all_reduce");
  require(sdk::can_reduce(args.dtype, args.reduce), std::string("all_reduce cannot take the ") +
                                                        name_of_reduce(args.reduce) + " of " +
                                                        sdk::name_of(args.dtype) + " elements");
}

void check_broadcast(const cohort_op_args& args, int size) {
  check_elements(args, "broadcast");
  require(args.root >= 0 && args.root < size,
          "broadcast has root " + std::to_string(args.root) + " but there are " + std::to_string(size) + " ranks");
}

void check_exchange(sdk::Span<const cohort_message> messages, int rank, int size) {
  uint64_t sends_to_self = 0;
  uint64_t receives_from_self = 0;
  for (const cohort_message& message : messages) {
    require(message.peer >= 0 && message.peer < size, "exchange names rank " + std::to_string(message.peer) +
                                                          " but there are " + std::to_string(size) + " ranks");
    require(message.nbytes == 0 || message.data, "exchange was given no memory");
    if (message.peer == rank) ++(message.is_send ? sends_to_self : receives_from_self);
  }
  require(sends_to_self == receives_from_self, "exchange has " + std::to_string(sends_to_self) +
                                                   " messages from rank " + std::to_string(rank) +
                                                   " to itself but receives " + std::to_string(receives_from_self));
}

}  // namespace cohort::shm
