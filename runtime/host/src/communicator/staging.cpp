#include "communicator/staging.hpp"

#include <algorithm>
#include <limits>

#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>
#include <cohort/sdk/dtype.hpp>

#include "communicator/composed.hpp"
#include "communicator/refusals.hpp"
#include "host_object/guarded.hpp"

namespace cohort::host {
namespace {

using Pieces = Staging::Pieces;

constexpr uint64_t kChunkBytes = 2ull << 20;  // long enough to hide the start of a copy, short beside a bucket
constexpr uint64_t kWhole = std::numeric_limits<uint64_t>::max();
constexpr cohort_stream kCpuStream{nullptr, COHORT_DEVICE_CPU, 0};

// How an operation's data lies: in pieces, at two of which its input and output begin.
struct Shape {
  Pieces pieces;
  size_t input = 0, output = 0;
  uint64_t chunk_bytes = kChunkBytes;  // kWhole: ranks do not see pieces of the same sizes
};

// A piece for each rank, one after another in device memory.
Pieces row(const cohort_op_args& args, const uint64_t* counts, const void* from, void* to, int size) {
  Pieces pieces;
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  for (int rank = 0; rank < size; ++rank) {
    pieces.push_back({source, target, counts ? counts[rank] : args.count});
    const uint64_t nbytes = pieces.back().count * sdk::size_of(args.dtype);
    if (source) source += nbytes;
    if (target) target += nbytes;
  }
  return pieces;
}

// Of one piece, that some ranks give and some get.
Shape whole(const cohort_op_args& args, bool gives, bool gets) {
  return {row(args, nullptr, gives ? args.input : nullptr, gets ? args.output : nullptr, 1)};
}

template <auto Slot>
Shape shape_of(const cohort_comm& comm, const cohort_op_args& args) {
  using Table = cohort_collective_vt;
  const auto own = static_cast<size_t>(comm.rank);
  const bool is_root = comm.rank == args.root;
  if constexpr (Slot == &Table::all_reduce) return whole(args, true, true);
  if constexpr (Slot == &Table::reduce) return whole(args, true, is_root);
  if constexpr (Slot == &Table::broadcast) return whole(args, is_root, !is_root || args.input != args.output);
  if constexpr (Slot == &Table::all_gather) {
    Shape shape{row(args, args.counts, nullptr, args.output, comm.size), own, 0};
    shape.pieces[own].from = static_cast<const std::byte*>(args.input);
    return shape;
  }
  if constexpr (Slot == &Table::reduce_scatter) {
    Shape shape{row(args, args.counts, args.input, nullptr, comm.size), 0, own};
    shape.pieces[own].to = static_cast<std::byte*>(args.output);
    return shape;
  }
  if constexpr (Slot == &Table::all_to_all) {
    Shape shape{row(args, args.counts, args.input, nullptr, comm.size), 0, static_cast<size_t>(comm.size)};
    const Pieces got = row(args, args.recv_counts ? args.recv_counts : args.counts, nullptr, args.output, comm.size);
    shape.pieces.insert(shape.pieces.end(), got.begin(), got.end());
    if (args.counts) shape.chunk_bytes = kWhole;
    return shape;
  }
}

template <auto Slot>
cohort_status on_either(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  Staging& staging = *Collective::of(c).staging();
  const auto operate = staging.host_table().*Slot;
  if (composed::is_cpu_memory(args->stream)) return operate(c, comm, args);
  return guarded(c->host, [&] {
    const Shape shape = shape_of<Slot>(*comm, *args);
    const uint64_t element = std::max<uint64_t>(1, sdk::size_of(args->dtype));
    const uint64_t chunk = std::max<uint64_t>(1, shape.chunk_bytes / (element * shape.pieces.size()));
    const auto operate_on = [&](const Pieces& parts) {
      std::vector<uint64_t> counts;
      for (const Staging::Piece& part : parts) counts.push_back(part.count);
      cohort_op_args cpu_args = *args;
      cpu_args.stream = kCpuStream;
      cpu_args.input = parts[shape.input].pinned;
      cpu_args.output = parts[shape.output].pinned;
      cpu_args.count = counts[0];
      if (args->counts) cpu_args.counts = counts.data();
      if (args->recv_counts) cpu_args.recv_counts = counts.data() + comm->size;
      return operate(c, comm, &cpu_args);
    };
    return staging.run({shape.pieces, element, chunk, operate_on}, args->stream);
  });
}

cohort_status exchange(cohort_collective* c, cohort_comm* comm, const cohort_exchange_args* args) noexcept {
  Staging& staging = *Collective::of(c).staging();
  const auto operate = staging.host_table().exchange;
  if (composed::is_cpu_memory(args->stream)) return operate(c, comm, args);
  return guarded(c->host, [&] {
    std::vector<cohort_message> messages(args->messages, args->messages + args->num_messages);
    Pieces pieces;
    for (const cohort_message& message : messages) {
      auto* const data = static_cast<std::byte*>(message.data);
      pieces.push_back({message.is_send ? data : nullptr, message.is_send ? nullptr : data, message.nbytes});
    }
    const auto operate_on = [&](const Pieces& parts) {
      for (size_t i = 0; i < messages.size(); ++i) messages[i].data = parts[i].pinned;
      const cohort_exchange_args cpu_args{sizeof cpu_args, 0, messages.data(), messages.size(), kCpuStream};
      return operate(c, comm, &cpu_args);
    };
    return staging.run({pieces, 1, kWhole, operate_on}, args->stream);
  });
}

}  // namespace

Staging::Staging(cohort_accelerator& accelerator, HostObject& host, const cohort_collective_vt& host_table)
    : host_table_(host_table), pinned_(accelerator, host) {
  if (!accelerator.vt->alloc_pinned) {
    throw UserError(
        "this collective moves host memory only, and the accelerator has no pinned memory to stage its "
        "tensors through; choose another one with --collective");
  }
}

cohort_collective_vt Staging::table() const {
  using Table = cohort_collective_vt;
  Table table = host_table_;
  table.alloc = nullptr;
  table.release = nullptr;
  table.exchange = exchange;
  table.all_reduce = on_either<&Table::all_reduce>;
  table.reduce = on_either<&Table::reduce>;
  table.broadcast = on_either<&Table::broadcast>;
  table.all_gather = on_either<&Table::all_gather>;
  table.reduce_scatter = on_either<&Table::reduce_scatter>;
  table.all_to_all = on_either<&Table::all_to_all>;
  return table;
}

cohort_status Staging::run(const Work& work, const cohort_stream& stream) {
  uint64_t longest = 1, nbytes = 0;
  for (const Piece& piece : work.pieces) {
    longest = std::max(longest, piece.count);
    nbytes += std::min(piece.count, work.chunk) * work.element;
  }
  const uint64_t num_chunks = (longest - 1) / work.chunk + 1;
  // Two are enough: a copy into one is behind the copy out of it on the same stream.
  StagedCopies copies(pinned_, stream);
  std::byte* const slots[]{copies.take(nbytes, kChunkBytes),
                           num_chunks > 1 ? copies.take(nbytes, kChunkBytes) : nullptr};
  Pieces parts[2];
  const auto copy_in = [&](uint64_t index) {
    std::byte* next = slots[index % 2];
    parts[index % 2].clear();
    for (const auto& [from, to, count, none] : work.pieces) {
      const uint64_t first = std::min(count, index * work.chunk), length = std::min(count - first, work.chunk);
      const uint64_t skipped = first * work.element;
      parts[index % 2].push_back({from ? from + skipped : from, to ? to + skipped : to, length, next});
      if (from) copies.to_host(next, from + skipped, length * work.element);
      next += length * work.element;
    }
  };
  const auto copy_back = [&](uint64_t index) {
    for (const auto& [from, to, count, pinned] : parts[index % 2]) {
      if (to) copies.to_device(to, pinned, count * work.element);
    }
  };
  copy_in(0);
  copies.wait();
  for (uint64_t index = 0; index < num_chunks; ++index) {
    if (index + 1 < num_chunks) copy_in(index + 1);
    const cohort_status status = work.operate(parts[index % 2]);
    copies.wait();
    if (status != COHORT_OK) return status_of_part(pinned_.host(), status, index == 0);
    copy_back(index);
  }
  copies.wait();
  return COHORT_OK;
}

}  // namespace cohort::host
