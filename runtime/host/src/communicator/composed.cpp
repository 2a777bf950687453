#include "communicator/composed.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/operation_checks.hpp>
#include <cohort/sdk/reduce.hpp>

#include "communicator/refusals.hpp"
#include "host_object/guarded.hpp"

namespace cohort::host::composed {
namespace {

// A whole that consists of a piece for each rank, in elements.
class Pieces {
 public:
  Pieces(int size, uint64_t element, const uint64_t* counts, uint64_t count)
      : offsets_(static_cast<size_t>(size) + 1), element_(element) {
    for (size_t r = 0; r + 1 < offsets_.size(); ++r) {
      const uint64_t own = counts ? counts[r] : count;
      if (own > sdk::kMostElements - offsets_[r]) throw UserError("pieces of an impossible number of elements");
      offsets_[r + 1] = offsets_[r] + own;
    }
  }
  /// `count` elements cut into pieces whose sizes differ by at most one.
  static Pieces even(int size, uint64_t element, uint64_t count) {
    const auto n = static_cast<uint64_t>(size);
    std::vector<uint64_t> counts;
    for (uint64_t r = 0; r < n; ++r) counts.push_back(count / n + (r < count % n ? 1 : 0));
    return {size, element, counts.data(), 0};
  }
  uint64_t count(int rank) const { return at(rank + 1) - at(rank); }
  uint64_t nbytes(int rank) const { return count(rank) * element_; }
  uint64_t offset(int rank) const { return at(rank) * element_; }

 private:
  std::vector<uint64_t> offsets_;
  uint64_t element_;

  uint64_t at(int rank) const { return offsets_[static_cast<size_t>(rank)]; }
};

class Messages {
 public:
  void send(int peer, const void* data, uint64_t nbytes) { add(peer, const_cast<void*>(data), nbytes, 1); }
  void receive(int peer, void* data, uint64_t nbytes) { add(peer, data, nbytes, 0); }
  cohort_status exchange(cohort_collective* c, cohort_comm* comm, const cohort_stream& stream,
                         bool is_first = true) const {
    const cohort_exchange_args args{sizeof args, 0, messages_.data(), messages_.size(), stream};
    return status_of_part(Collective::of(c).host(), c->vt->exchange(c, comm, &args), is_first);
  }

 private:
  std::vector<cohort_message> messages_;

  void add(int peer, void* data, uint64_t nbytes, uint32_t is_send) {
    if (nbytes > 0) messages_.push_back({data, nbytes, peer, is_send});
  }
};

const std::byte* input_of(const cohort_op_args& args) {
  return static_cast<const std::byte*>(args.input);
}
std::byte* output_of(const cohort_op_args& args) {
  return static_cast<std::byte*>(args.output);
}

void require(bool condition, const std::string& problem) {
  if (!condition) throw UserError(problem);
}

uint64_t checked_element(const cohort_comm& comm, const cohort_op_args& args, const char* operation) {
  sdk::check_elements(args, comm.size, operation);
  require(is_cpu_memory(args.stream), std::string(operation) + ": this collective lacks it for device memory, and " +
                                          "the host composes it for its own; choose another collective");
  return sdk::size_of(args.dtype);
}

// This rank's piece of the reduced whole goes to `output`.
cohort_status scatter_reduced(cohort_collective* c, cohort_comm* comm, const cohort_op_args& args, const Pieces& pieces,
                              std::byte* output) {
  const auto size = static_cast<size_t>(comm->size);
  const uint64_t own_nbytes = pieces.nbytes(comm->rank);
  const std::unique_ptr<std::byte[]> scratch(new std::byte[own_nbytes * (size - 1)]);
  std::vector<const std::byte*> sources(size);
  Messages messages;
  std::byte* next = scratch.get();
  for (int rank = 0; rank < comm->size; ++rank) {
    const std::byte* const piece = input_of(args) + pieces.offset(rank);
    if (rank == comm->rank) {
      sources[static_cast<size_t>(rank)] = piece;
      continue;
    }
    messages.send(rank, piece, pieces.nbytes(rank));
    messages.receive(rank, next, own_nbytes);
    sources[static_cast<size_t>(rank)] = next;
    next += own_nbytes;
  }
  const cohort_status status = messages.exchange(c, comm, args.stream);
  if (status != COHORT_OK) return status;
  sdk::reduce_elements(args.dtype, args.reduce, {sources.data(), sources.size()}, output, pieces.count(comm->rank));
  return COHORT_OK;
}

// Every rank's piece, from its place in `whole`, to the same place on all ranks.
cohort_status gather_pieces(cohort_collective* c, cohort_comm* comm, const cohort_stream& stream, const Pieces& pieces,
                            std::byte* whole, bool is_first) {
  Messages messages;
  for (int rank = 0; rank < comm->size; ++rank) {
    if (rank == comm->rank) continue;
    messages.send(rank, whole + pieces.offset(comm->rank), pieces.nbytes(comm->rank));
    messages.receive(rank, whole + pieces.offset(rank), pieces.nbytes(rank));
  }
  return messages.exchange(c, comm, stream, is_first);
}

void copy_if_apart(void* output, const void* input, uint64_t nbytes) {
  if (output != input && nbytes > 0) std::memcpy(output, input, nbytes);
}

}  // namespace

cohort_status all_reduce(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return guarded(c->host, [&] {
    const uint64_t element = checked_element(*comm, *args, "all_reduce");
    sdk::check_reduction(*args, comm->size, "all_reduce");
    const Pieces pieces = Pieces::even(comm->size, element, args->count);
    std::byte* const own = output_of(*args) + pieces.offset(comm->rank);
    const cohort_status status = scatter_reduced(c, comm, *args, pieces, own);
    return status == COHORT_OK ? gather_pieces(c, comm, args->stream, pieces, output_of(*args), false) : status;
  });
}

cohort_status reduce(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return guarded(c->host, [&] {
    const uint64_t element = checked_element(*comm, *args, "reduce");
    sdk::check_reduction(*args, comm->size, "reduce");
    sdk::check_root(*args, comm->size, "reduce");
    const Pieces pieces = Pieces::even(comm->size, element, args->count);
    const bool is_root = comm->rank == args->root;
    const std::unique_ptr<std::byte[]> scratch(is_root ? nullptr : new std::byte[pieces.nbytes(comm->rank)]);
    std::byte* const own = is_root ? output_of(*args) + pieces.offset(comm->rank) : scratch.get();
    const cohort_status status = scatter_reduced(c, comm, *args, pieces, own);
    if (status != COHORT_OK) return status;
    Messages messages;
    if (!is_root) messages.send(args->root, own, pieces.nbytes(comm->rank));
    for (int rank = 0; is_root && rank < comm->size; ++rank) {
      if (rank != comm->rank) messages.receive(rank, output_of(*args) + pieces.offset(rank), pieces.nbytes(rank));
    }
    return messages.exchange(c, comm, args->stream, false);
  });
}

// A binomial tree: every rank but the root receives once; all have it after log2(size) rounds.
cohort_status broadcast(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return guarded(c->host, [&] {
    const uint64_t nbytes = args->count * checked_element(*comm, *args, "broadcast");
    sdk::check_root(*args, comm->size, "broadcast");
    const int from_root = (comm->rank - args->root + comm->size) % comm->size;
    const auto rank_at = [&](int distance) { return (args->root + distance) % comm->size; };
    if (from_root == 0) copy_if_apart(args->output, args->input, nbytes);
    int reached = 1;  // ranks nearer to the root than this have the data
    while (reached < comm->size) {
      Messages messages;
      if (from_root < reached && from_root + reached < comm->size) {
        messages.send(rank_at(from_root + reached), args->output, nbytes);
      } else if (from_root >= reached && from_root < 2 * reached) {
        messages.receive(rank_at(from_root - reached), args->output, nbytes);
      }
      const cohort_status status = messages.exchange(c, comm, args->stream, reached == 1);
      if (status != COHORT_OK) return status;
      reached *= 2;
    }
    return COHORT_OK;
  });
}

cohort_status all_gather(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return guarded(c->host, [&] {
    const Pieces pieces(comm->size, checked_element(*comm, *args, "all_gather"), args->counts, args->count);
    copy_if_apart(output_of(*args) + pieces.offset(comm->rank), args->input, pieces.nbytes(comm->rank));
    return gather_pieces(c, comm, args->stream, pieces, output_of(*args), true);
  });
}

cohort_status reduce_scatter(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return guarded(c->host, [&] {
    const uint64_t element = checked_element(*comm, *args, "reduce_scatter");
    sdk::check_reduction(*args, comm->size, "reduce_scatter");
    const Pieces pieces(comm->size, element, args->counts, args->count);
    return scatter_reduced(c, comm, *args, pieces, output_of(*args));
  });
}

cohort_status all_to_all(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return guarded(c->host, [&] {
    const uint64_t element = checked_element(*comm, *args, "all_to_all");
    const uint64_t* const received = args->recv_counts ? args->recv_counts : args->counts;
    const Pieces given(comm->size, element, args->counts, args->count);
    const Pieces got(comm->size, element, received, args->count);
    require(given.count(comm->rank) == got.count(comm->rank),
            "all_to_all: what this rank gives itself differs from what it gets from itself");
    Messages messages;
    for (int rank = 0; rank < comm->size; ++rank) {
      const std::byte* const piece = input_of(*args) + given.offset(rank);
      std::byte* const place = output_of(*args) + got.offset(rank);
      if (rank == comm->rank) {
        copy_if_apart(place, piece, given.nbytes(rank));
        continue;
      }
      messages.send(rank, piece, given.nbytes(rank));
      messages.receive(rank, place, got.nbytes(rank));
    }
    return messages.exchange(c, comm, args->stream);
  });
}

// Dissemination: after round k every rank knows of 2^k others.
cohort_status barrier(cohort_collective* c, cohort_comm* comm) noexcept {
  return guarded(c->host, [&] {
    const cohort_stream stream{nullptr, COHORT_DEVICE_CPU, 0};
    for (int distance = 1; distance < comm->size; distance *= 2) {
      uint8_t own = 1, theirs = 0;
      Messages messages;
      messages.send((comm->rank + distance) % comm->size, &own, 1);
      messages.receive((comm->rank - distance + comm->size) % comm->size, &theirs, 1);
      const cohort_status status = messages.exchange(c, comm, stream, distance == 1);
      if (status != COHORT_OK) return status;
    }
    return COHORT_OK;
  });
}

}  // namespace cohort::host::composed
