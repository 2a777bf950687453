#include "shared_sum.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <cohort/sdk/dtype.hpp>

#include "shared_memory.hpp"
#include "sum.hpp"

namespace cohort::mpi {

namespace {

constexpr uint64_t kTileBytes = 4 << 10;  // whose result is in the first-level cache while it goes to all ranks

}  // namespace

SharedSum::SharedSum(Communicator& communicator, const cohort_op_args& args, OrderedSum::Results results)
    : communicator_(communicator), args_(args), results_(results) {}

/// True where others write to a rank's output.
bool SharedSum::wants(int rank) const {
  return results_ == OrderedSum::Results::kToAll || (results_ == OrderedSum::Results::kToRoot && rank == args_.root);
}

SharedSum::Places SharedSum::own_places() const {
  const SharedMemory& memory = *communicator_.memory_;
  Places own{memory.find(args_.input, nbytes_), {}, false, true};
  const bool is_written = wants(communicator_.rank());
  if (is_written) own.output = args_.input == args_.output ? own.input : memory.find(args_.output, nbytes_);
  own.is_shared = own.input.window != 0 && (!is_written || own.output.window != 0);
  return own;
}

void SharedSum::announce(Operation& operation, int mark, uint64_t input_nbytes) {
  nbytes_ = input_nbytes;
  const int size = communicator_.size(), own = communicator_.rank();
  places_.resize(static_cast<std::size_t>(size));
  places_[static_cast<std::size_t>(own)] = own_places();
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the data are there before anybody hears of them
  first_ = operation.mark();
  for (int step = 1; step < size; ++step) {
    const int peer = (own + step) % size;
    operation.receive(peer, &places_[static_cast<std::size_t>(peer)], sizeof(Places), mark);
  }
  for (int step = 1; step < size; ++step) {
    operation.send((own + step) % size, &places_[static_cast<std::size_t>(own)], sizeof(Places), mark);
  }
  last_ = operation.mark();
}

bool SharedSum::is_possible(Operation& operation) {
  if (!places_[static_cast<std::size_t>(communicator_.rank())].is_shared) return false;
  operation.wait(first_, last_);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return std::all_of(places_.begin(), places_.end(), [](const Places& one) { return one.is_shared; });
}

void SharedSum::run(Operation& operation, int mark, const OrderedSum::Piece& piece) {
  reduce(piece);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the results are there before anybody hears of them
  const int size = communicator_.size(), own = communicator_.rank();
  for (int step = 1; step < size; ++step) {
    const int peer = (own + step) % size;
    operation.receive(peer, &places_[static_cast<std::size_t>(peer)].has_written, sizeof(bool), mark);
  }
  for (int step = 1; step < size; ++step) {
    operation.send((own + step) % size, &places_[static_cast<std::size_t>(own)].has_written, sizeof(bool), mark);
  }
  operation.wait_all();
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void SharedSum::reduce(const OrderedSum::Piece& piece) const {
  const auto offset = static_cast<uint64_t>(piece.input - static_cast<const std::byte*>(args_.input));
  const SharedMemory& memory = *communicator_.memory_;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  if (piece.output) outputs.push_back(piece.output);
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    const Places& theirs = places_[static_cast<std::size_t>(rank)];
    const int root_rank = communicator_.members_[static_cast<std::size_t>(rank)];
    inputs.push_back(memory.resolve(root_rank, theirs.input, nbytes_) + offset);
    if (rank != communicator_.rank() && wants(rank)) {
      outputs.push_back(memory.resolve(root_rank, theirs.output, nbytes_) + offset);
    }
  }
  std::vector<const std::byte*> sources(inputs);
  for (uint64_t begin = 0; begin < piece.nbytes; begin += kTileBytes) {
    const uint64_t length = std::min(kTileBytes, piece.nbytes - begin);
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) sources[rank] = inputs[rank] + begin;
    std::byte* const result = outputs.front() + begin;
    reduce_in_order(communicator_.float_sum_, args_.dtype, args_.reduce,
                    {sources.data(), sources.size(), result, length / sdk::size_of(args_.dtype)});
    for (std::size_t other = 1; other < outputs.size(); ++other) std::memcpy(outputs[other] + begin, result, length);
  }
}

}  // namespace cohort::mpi
