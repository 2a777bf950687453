#include "communicator/staging.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>
#include <cohort/sdk/dtype.hpp>

#include "communicator/composed.hpp"
#include "rank/guarded.hpp"

namespace cohort::host {
namespace {

constexpr uint64_t kChunkBytes = 2ull << 20;  // long enough to hide the start of a copy, short beside a bucket
constexpr uint64_t kWhole = std::numeric_limits<uint64_t>::max();

bool takes(const cohort_component& component, const cohort_host* host, int32_t device_type, int size) {
  if (!component.supports) return true;
  for (const int nodes : {1, 2}) {  // some serve one node alone, some only several
    cohort_query query{sizeof query, device_type, size, nodes, size, 0, nullptr};
    component.supports(host, &query);
    if (query.score > 0) return true;
  }
  return false;
}

using Pieces = std::vector<Staging::Piece>;

// A piece for each rank, one after another in device memory.
void append_row(Pieces& pieces, const void* from, void* to, const cohort_op_args& args, const uint64_t* counts,
                int size) {
  const uint64_t element = sdk::size_of(args.dtype);
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  for (int rank = 0; rank < size; ++rank) {
    const uint64_t count = counts ? counts[rank] : args.count;
    pieces.push_back({source, target, count});
    if (source) source += count * element;
    if (target) target += count * element;
  }
}

// How an operation's data lies: pieces, and those of them at which the operation's input and output begin.
struct Shape {
  Pieces pieces;
  size_t input = 0, output = 0;
  bool is_even = true;  // the ranks see pieces of the same sizes

  Staging::Piece& at(int rank) { return pieces[static_cast<size_t>(rank)]; }
};

const std::byte* input_of(const cohort_op_args& args) {
  return static_cast<const std::byte*>(args.input);
}
std::byte* output_of(const cohort_op_args& args) {
  return static_cast<std::byte*>(args.output);
}

Shape reduced_by_all(const cohort_comm&, const cohort_op_args& args) {
  return {{{input_of(args), output_of(args), args.count}}};
}
Shape reduced(const cohort_comm& comm, const cohort_op_args& args) {
  return {{{input_of(args), comm.rank == args.root ? output_of(args) : nullptr, args.count}}};
}
Shape broadcasted(const cohort_comm& comm, const cohort_op_args& args) {
  const bool is_root = comm.rank == args.root;
  return {{{is_root ? input_of(args) : nullptr, is_root && args.input == args.output ? nullptr : output_of(args),
            args.count}}};
}
Shape gathered(const cohort_comm& comm, const cohort_op_args& args) {
  Shape shape;
  append_row(shape.pieces, nullptr, args.output, args, args.counts, comm.size);
  Staging::Piece& own = shape.at(comm.rank);
  own.from = input_of(args);
  if (own.from == own.to) own.to = nullptr;
  shape.input = static_cast<size_t>(comm.rank);
  return shape;
}
Shape scattered(const cohort_comm& comm, const cohort_op_args& args) {
  Shape shape;
  append_row(shape.pieces, args.input, nullptr, args, args.counts, comm.size);
  shape.at(comm.rank).to = output_of(args);
  shape.output = static_cast<size_t>(comm.rank);
  return shape;
}
Shape transposed(const cohort_comm& comm, const cohort_op_args& args) {
  Shape shape;
  append_row(shape.pieces, args.input, nullptr, args, args.counts, comm.size);
  append_row(shape.pieces, nullptr, args.output, args, args.recv_counts ? args.recv_counts : args.counts, comm.size);
  shape.output = static_cast<size_t>(comm.size);
  shape.is_even = !args.counts;
  return shape;
}

template <auto Slot, auto ShapeOf>
cohort_status on_either(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  Staging& staging = *Collective::of(c).staging();
  const auto operate = staging.host_table().*Slot;
  if (composed::is_host_memory(args->stream)) return operate(c, comm, args);
  return guarded(c->host, [&] {
    const Shape shape = ShapeOf(*comm, *args);
    const uint64_t element = std::max<uint64_t>(1, sdk::size_of(args->dtype));
    const uint64_t share = std::max<uint64_t>(1, kChunkBytes / (element * shape.pieces.size()));
    return staging.run({shape.pieces, element, shape.is_even ? share : kWhole,
                        [&](const Staging::Chunk& chunk) {
                          cohort_op_args part = *args;
                          part.stream = {nullptr, COHORT_DEVICE_CPU, 0};
                          part.input = chunk.places[shape.input];
                          part.output = chunk.places[shape.output];
                          part.count = chunk.part_of(args->count);
                          if (args->counts) part.counts = chunk.counts.data();
                          if (args->recv_counts) part.recv_counts = chunk.counts.data() + comm->size;
                          return operate(c, comm, &part);
                        }},
                       args->stream);
  });
}

cohort_status exchange(cohort_collective* c, cohort_comm* comm, const cohort_exchange_args* args) noexcept {
  Staging& staging = *Collective::of(c).staging();
  const auto operate = staging.host_table().exchange;
  if (composed::is_host_memory(args->stream)) return operate(c, comm, args);
  return guarded(c->host, [&] {
    std::vector<cohort_message> messages(args->messages, args->messages + args->num_messages);
    Pieces pieces;
    for (const cohort_message& message : messages) {
      auto* const data = static_cast<std::byte*>(message.data);
      pieces.push_back({message.is_send ? data : nullptr, message.is_send ? nullptr : data, message.nbytes});
    }
    return staging.run({pieces, 1, kWhole,
                        [&](const Staging::Chunk& chunk) {
                          for (size_t i = 0; i < messages.size(); ++i) messages[i].data = chunk.places[i];
                          cohort_exchange_args part = *args;
                          part.messages = messages.data();
                          part.stream = {nullptr, COHORT_DEVICE_CPU, 0};
                          return operate(c, comm, &part);
                        }},
                       args->stream);
  });
}

}  // namespace

bool needs_staging(const cohort_component& component, const cohort_host* host, const cohort_connect_args& group) {
  return group.device_type != COHORT_DEVICE_CPU && !takes(component, host, group.device_type, group.size) &&
         takes(component, host, COHORT_DEVICE_CPU, group.size);
}

uint64_t Staging::Chunk::part_of(uint64_t count) const {
  return count > first ? std::min(count - first, length) : 0;
}

Staging::Staging(cohort_accelerator& accelerator, HostObject& host, const cohort_collective_vt& host_table)
    : accelerator_(accelerator), host_(host), host_table_(host_table) {
  if (!accelerator.vt->alloc_pinned) {
    throw UserError("this collective moves host memory only, and the accelerator has no pinned memory to stage its "
                    "tensors through; choose another one with --collective");
  }
}

Staging::~Staging() {
  for (const auto& [memory, nbytes] : unused_) accelerator_.vt->free_pinned(&accelerator_, memory);
}

cohort_collective_vt Staging::table() const {
  cohort_collective_vt table = host_table_;
  using Table = cohort_collective_vt;
  table.alloc = nullptr;
  table.free = nullptr;
  table.exchange = exchange;
  table.all_reduce = on_either<&Table::all_reduce, reduced_by_all>;
  table.reduce = on_either<&Table::reduce, reduced>;
  table.broadcast = on_either<&Table::broadcast, broadcasted>;
  table.all_gather = on_either<&Table::all_gather, gathered>;
  table.reduce_scatter = on_either<&Table::reduce_scatter, scattered>;
  table.all_to_all = on_either<&Table::all_to_all, transposed>;
  return table;
}

// Pinned memory for one chunk; goes back to the others when the operation ends.
class Staging::Slot {
 public:
  Slot(Staging& owner, const Plan& plan) : owner_(owner) {
    uint64_t needed = 0;
    for (const Piece& piece : plan.pieces) needed += std::min(piece.count, plan.chunk) * plan.element;
    const std::lock_guard lock(owner.mutex_);
    const auto fits = std::ranges::find_if(owner.unused_, [&](const auto& one) { return one.second >= needed; });
    if (fits != owner.unused_.end()) {
      pinned_ = *fits;
      owner.unused_.erase(fits);
      return;
    }
    void* memory = nullptr;
    pinned_.second = std::max(needed, kChunkBytes);
    owner.host_.check(owner.accelerator_.vt->alloc_pinned(&owner.accelerator_, pinned_.second, &memory),
                      "pinned memory for staging");
    pinned_.first = static_cast<std::byte*>(memory);
  }
  ~Slot() {
    const std::lock_guard lock(owner_.mutex_);
    owner_.unused_.push_back(pinned_);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  // The chunk with this index, lying here.
  const Chunk& hold(const Plan& plan, uint64_t index) {
    chunk_ = {index * plan.chunk, plan.chunk, {}, {}};
    std::byte* next = pinned_.first;
    for (const Piece& piece : plan.pieces) {
      chunk_.places.push_back(next);
      chunk_.counts.push_back(chunk_.part_of(piece.count));
      next += chunk_.counts.back() * plan.element;
    }
    return chunk_;
  }
  const Chunk& chunk() const { return chunk_; }

 private:
  Staging& owner_;
  std::pair<std::byte*, uint64_t> pinned_;
  Chunk chunk_;
};

void Staging::copy_in(const Plan& plan, const Chunk& chunk, const cohort_stream& stream) {
  for (size_t i = 0; i < plan.pieces.size(); ++i) {
    if (!plan.pieces[i].from || chunk.counts[i] == 0) continue;
    host_.check(accelerator_.vt->copy_to_host(&accelerator_, chunk.places[i],
                                              plan.pieces[i].from + chunk.first * plan.element,
                                              chunk.counts[i] * plan.element, &stream),
                "copy from the device");
  }
}

void Staging::copy_back(const Plan& plan, const Chunk& chunk, const cohort_stream& stream) {
  for (size_t i = 0; i < plan.pieces.size(); ++i) {
    if (!plan.pieces[i].to || chunk.counts[i] == 0) continue;
    host_.check(accelerator_.vt->copy_to_device(&accelerator_, plan.pieces[i].to + chunk.first * plan.element,
                                                chunk.places[i], chunk.counts[i] * plan.element, &stream),
                "copy to the device");
  }
}

void Staging::wait(const cohort_stream& stream) {
  host_.check(accelerator_.vt->wait(&accelerator_, &stream), "waiting for copies");
}

cohort_status Staging::run(const Plan& plan, const cohort_stream& stream) {
  uint64_t longest = 1;
  for (const Piece& piece : plan.pieces) longest = std::max(longest, piece.count);
  const uint64_t num_chunks = (longest - 1) / plan.chunk + 1;
  // Two are enough: a copy into a slot is behind the copy out of it on the same stream.
  Slot first(*this, plan);
  std::optional<Slot> second;
  if (num_chunks > 1) second.emplace(*this, plan);
  const auto slot = [&](uint64_t index) -> Slot& { return index % 2 == 0 ? first : *second; };
  copy_in(plan, first.hold(plan, 0), stream);
  wait(stream);
  for (uint64_t index = 0; index < num_chunks; ++index) {
    if (index + 1 < num_chunks) copy_in(plan, slot(index + 1).hold(plan, index + 1), stream);
    const cohort_status status = plan.operate(slot(index).chunk());
    wait(stream);
    if (status != COHORT_OK) return status;
    copy_back(plan, slot(index).chunk(), stream);
  }
  wait(stream);
  return COHORT_OK;
}

}  // namespace cohort::host
