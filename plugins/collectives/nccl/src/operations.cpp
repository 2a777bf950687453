#include <optional>

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/exchange.hpp>
#include <cohort/sdk/operation_checks.hpp>

#include "calls.hpp"
#include "communicator.hpp"

namespace cohort::nccl {
namespace {

std::optional<ncclDataType_t> type_of(int32_t dtype) {
  switch (dtype) {
    case COHORT_FLOAT32:
      return ncclFloat32;
    case COHORT_FLOAT64:
      return ncclFloat64;
    case COHORT_FLOAT16:
      return ncclFloat16;
    case COHORT_BFLOAT16:
      return ncclBfloat16;
    case COHORT_INT8:
      return ncclInt8;
    case COHORT_INT32:
      return ncclInt32;
    case COHORT_INT64:
      return ncclInt64;
    case COHORT_UINT8:
    case COHORT_BOOL:  // 0 and 1, whose least and greatest are those of bytes
      return ncclUint8;
    case COHORT_UINT64:
      return ncclUint64;
    default:
      return std::nullopt;
  }
}

std::optional<ncclRedOp_t> operation_of(int32_t reduce) {
  switch (reduce) {
    case COHORT_REDUCE_SUM:
    case COHORT_REDUCE_MEAN:  // divided afterwards
      return ncclSum;
    case COHORT_REDUCE_PRODUCT:
      return ncclProd;
    case COHORT_REDUCE_MIN:
      return ncclMin;
    case COHORT_REDUCE_MAX:
      return ncclMax;
    default:
      return std::nullopt;
  }
}

// NCCL rounds these at every hop.
bool is_rounded_often(const cohort_op_args& args) {
  const bool is_choice = args.reduce == COHORT_REDUCE_MIN || args.reduce == COHORT_REDUCE_MAX;
  return sdk::is_floating(args.dtype) && sdk::size_of(args.dtype) == 2 && !is_choice;
}

std::byte* bytes_at(const void* memory, uint64_t offset) {
  return static_cast<std::byte*>(const_cast<void*>(memory)) + offset;
}

uint64_t count_of(const cohort_op_args& args, int rank) {
  return args.counts ? args.counts[rank] : args.count;
}

uint64_t total_of(const cohort_op_args& args, int size) {
  uint64_t total = 0;
  for (int rank = 0; rank < size; ++rank) total += count_of(args, rank);
  return total;
}

}  // namespace

void Communicator::require_device_memory(const cohort_stream& stream, const char* who) const {
  if (stream.device_type == nccl().device_type && stream.native) return;
  throw sdk::failed_precondition(std::string(who) + ": '" + link_->name() +
                                 "' moves memory of GPUs, and this is another device's");
}

Communicator::Way Communicator::way_of(const cohort_op_args& args, const char* who, bool may_scale_first) const {
  require_device_memory(args.stream, who);
  sdk::check_reduction(args, size(), who);
  const bool is_known = type_of(args.dtype) && operation_of(args.reduce);
  const bool is_mean = args.reduce == COHORT_REDUCE_MEAN;
  const bool takes_own = family_->own_sums && (!is_mean || may_scale_first);
  if (is_known && (takes_own || !is_rounded_often(args))) return Way::kNccl;
  if (is_rounded_often(args) && (is_mean || args.reduce == COHORT_REDUCE_SUM)) return Way::kExactSum;
  throw sdk::Error(COHORT_UNIMPLEMENTED, std::string(who) + ": NCCL does not reduce these elements as cohort does");
}

ExactSums Communicator::exact(const cohort_op_args& args) const {
  return {family_->host, family_->scratch, *link_, args};
}

void Communicator::scale(const cohort_op_args& args, const void* input, uint64_t count) const {
  family_->host.core_kernels(args.stream.device_type)
      .scale({args.output, count, args.dtype, args.stream}, input, 1.0 / size());
}

template <class Call>
void Communicator::run_reduction(const char* name, const cohort_op_args& args, uint64_t output_count, Call&& call) {
  link_->enqueue(name, args.stream, [&](ncclComm_t comm, cudaStream_t stream) {
    return call(*type_of(args.dtype), *operation_of(args.reduce), comm, stream);
  });
  const bool is_mean = args.reduce == COHORT_REDUCE_MEAN && !is_rounded_often(args);
  if (is_mean && output_count > 0) scale(args, args.output, output_count);
}

// The mean of 16-bit elements is the sum of shares, which stays finite.
void Communicator::all_reduce(const cohort_op_args& args) {
  const Way way = way_of(args, "nccl all_reduce", true);
  if (args.count == 0) return;
  if (way == Way::kExactSum) return exact(args).all_reduce();
  const void* input = args.input;
  if (args.reduce == COHORT_REDUCE_MEAN && is_rounded_often(args)) {
    scale(args, input, args.count);
    input = args.output;
  }
  run_reduction("all_reduce", args, args.count,
                [&](ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
                  return nccl().AllReduce(input, args.output, args.count, type, op, comm, stream);
                });
}

void Communicator::reduce(const cohort_op_args& args) {
  const Way way = way_of(args, "nccl reduce", false);
  sdk::check_root(args, size(), "nccl reduce");
  if (args.count == 0) return;
  if (way == Way::kExactSum) return exact(args).reduce();
  run_reduction("reduce", args, rank() == args.root ? args.count : 0,
                [&](ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
                  return nccl().Reduce(args.input, args.output, args.count, type, op, args.root, comm, stream);
                });
}

void Communicator::reduce_scatter(const cohort_op_args& args) {
  const Way way = way_of(args, "nccl reduce_scatter", false);
  sdk::check_pieces(args, size(), "nccl reduce_scatter");
  const uint64_t element = sdk::size_of(args.dtype);
  if (total_of(args, size()) == 0) return;
  if (way == Way::kExactSum) return exact(args).reduce_scatter();
  run_reduction("reduce_scatter", args, count_of(args, rank()),
                [&](ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
                  if (!args.counts) {
                    return nccl().ReduceScatter(args.input, args.output, args.count, type, op, comm, stream);
                  }
                  Calls calls;
                  uint64_t offset = 0;
                  for (int root = 0; root < size(); ++root) {
                    const uint64_t count = args.counts[root];
                    const void* const piece = bytes_at(args.input, offset);
                    offset += count * element;
                    if (count == 0) continue;
                    calls.add([&] { return nccl().Reduce(piece, args.output, count, type, op, root, comm, stream); });
                  }
                  return calls.result();
                });
}

void Communicator::broadcast(const cohort_op_args& args) {
  require_device_memory(args.stream, "nccl broadcast");
  sdk::check_elements(args, size(), "nccl broadcast");
  sdk::check_root(args, size(), "nccl broadcast");
  const uint64_t nbytes = args.count * sdk::size_of(args.dtype);
  if (nbytes == 0) return;
  link_->enqueue("broadcast", args.stream, [&](ncclComm_t comm, cudaStream_t stream) {
    return nccl().Broadcast(args.input, args.output, nbytes, ncclUint8, args.root, comm, stream);
  });
}

void Communicator::all_gather(const cohort_op_args& args) {
  require_device_memory(args.stream, "nccl all_gather");
  sdk::check_pieces(args, size(), "nccl all_gather");
  const uint64_t element = sdk::size_of(args.dtype);
  if (total_of(args, size()) == 0) return;
  link_->enqueue("all_gather", args.stream, [&](ncclComm_t comm, cudaStream_t stream) {
    if (!args.counts) {
      return nccl().AllGather(args.input, args.output, args.count * element, ncclUint8, comm, stream);
    }
    Calls calls;
    uint64_t offset = 0;
    for (int root = 0; root < size(); ++root) {
      const uint64_t nbytes = args.counts[root] * element;
      void* const place = bytes_at(args.output, offset);
      offset += nbytes;
      if (nbytes == 0) continue;
      const void* const input = root == rank() ? args.input : place;
      calls.add([&] { return nccl().Broadcast(input, place, nbytes, ncclUint8, root, comm, stream); });
    }
    return calls.result();
  });
}

void Communicator::all_to_all(const cohort_op_args& args) {
  require_device_memory(args.stream, "nccl all_to_all");
  sdk::check_pieces(args, size(), "nccl all_to_all");
  const uint64_t element = sdk::size_of(args.dtype);
  const uint64_t* const received = args.recv_counts ? args.recv_counts : args.counts;
  std::vector<cohort_message> messages;
  uint64_t given = 0, got = 0;
  for (int peer = 0; peer < size(); ++peer) {
    const uint64_t sent_bytes = count_of(args, peer) * element;
    const uint64_t received_bytes = (received ? received[peer] : args.count) * element;
    messages.push_back({bytes_at(args.input, given), sent_bytes, peer, 1});
    messages.push_back({bytes_at(args.output, got), received_bytes, peer, 0});
    given += sent_bytes;
    got += received_bytes;
  }
  exchange({messages.data(), messages.size()}, args.stream);
}

void Communicator::exchange(sdk::Span<const cohort_message> messages, const cohort_stream& on) {
  require_device_memory(on, "nccl exchange");
  sdk::check_exchange(messages, rank(), size());
  link_->exchange("exchange of " + std::to_string(messages.size()) + " messages", messages, on);
}

}  // namespace cohort::nccl
