#include "ordered_sum.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/hash.hpp>

#include "shared_memory.hpp"
#include "shared_sum.hpp"
#include "sum.hpp"
#include "types.hpp"

namespace cohort::mpi {

namespace {

constexpr uint64_t kAtOnceBytes = 16 << 10;    // received by a rank; below, one round trip less is worth the bytes
constexpr uint64_t kSmallBytes = 2 << 10;      // a message of them costs no more than one that tells where they lie
constexpr uint64_t kSegmentBytes = 256 << 10;  // of a piece
constexpr uint64_t kLineBytes = 64;            // of the cache: pieces begin on them, as far as the whole does
constexpr uint64_t kWindow = 3;                // segments that are received at the same time

enum Kind : uint64_t { kAtOnce = 16, kToOwner = 17, kFromOwner = 18, kAnnounce = 19, kWritten = 20 };

uint64_t segments_of(uint64_t nbytes) {
  return (nbytes + kSegmentBytes - 1) / kSegmentBytes;
}
uint64_t nbytes_of(const std::vector<OrderedSum::Piece>& pieces) {
  const auto add = [](uint64_t sum, const OrderedSum::Piece& piece) { return sum + piece.nbytes; };
  return std::accumulate(pieces.begin(), pieces.end(), uint64_t{0}, add);
}
uint64_t length_of(uint64_t segment, uint64_t nbytes) {
  return std::min(kSegmentBytes, nbytes - segment * kSegmentBytes);
}

}  // namespace

// What all ranks know of the operation.
int OrderedSum::tag(uint64_t kind, Results results) const {
  sdk::Hash elements({args_.counts ? 0 : args_.count});
  for (int rank = 0; args_.counts && rank < size(); ++rank) elements.add(args_.counts[rank]);
  const int root = results == Results::kToRoot ? args_.root : 0;
  return communicator_.tag_of({kind, static_cast<uint64_t>(results), static_cast<uint64_t>(root),
                               static_cast<uint64_t>(args_.dtype), static_cast<uint64_t>(args_.reduce),
                               elements.value()});
}

std::vector<OrderedSum::Piece> OrderedSum::even_pieces(std::byte* output) const {
  const auto ranks = static_cast<uint64_t>(size());
  const uint64_t whole = args_.count * sdk::size_of(args_.dtype);
  const uint64_t lines = (whole + kLineBytes - 1) / kLineBytes;
  std::vector<Piece> pieces;
  uint64_t offset = 0;
  for (uint64_t owner = 0; owner < ranks; ++owner) {
    const uint64_t own_lines = lines / ranks + (owner < lines % ranks ? 1 : 0);
    const uint64_t nbytes = std::min(own_lines * kLineBytes, whole - offset);
    pieces.push_back({static_cast<const std::byte*>(args_.input) + offset, output ? output + offset : nullptr, nbytes});
    offset += nbytes;
  }
  return pieces;
}

// Ranks that take turns on a core wait for as many messages as there are, and not for as many as follow each other:
// with one owner there are the fewest.
std::vector<OrderedSum::Piece> OrderedSum::all_of_first(std::byte* output) const {
  std::vector<Piece> pieces(static_cast<std::size_t>(size()));
  pieces[0] = {static_cast<const std::byte*>(args_.input), output, args_.count * sdk::size_of(args_.dtype)};
  return pieces;
}

void OrderedSum::copy_alone() const {
  const uint64_t count = args_.counts ? args_.counts[0] : args_.count;
  if (args_.input != args_.output && count > 0) {
    std::memcpy(args_.output, args_.input, count * sdk::size_of(args_.dtype));
  }
}

bool OrderedSum::is_for_at_once(uint64_t nbytes) const {
  return nbytes * static_cast<uint64_t>(size() - 1) <= kAtOnceBytes;
}

void OrderedSum::all_reduce() {
  const uint64_t nbytes = args_.count * sdk::size_of(args_.dtype);
  if (size() == 1) return copy_alone();
  if (nbytes > kSmallBytes || !is_for_at_once(nbytes)) {
    return in_pieces("all_reduce", even_pieces(static_cast<std::byte*>(args_.output)), Results::kToAll);
  }
  Operation operation(communicator_, [this] { return text_of("all_reduce", args_, true); });
  if (size() == 2 || !communicator_.network_->takes_turns()) return at_once(operation);
  from_messages(operation, all_of_first(static_cast<std::byte*>(args_.output)), Results::kToAll);
}

void OrderedSum::reduce() {
  if (size() == 1) return copy_alone();
  const bool is_root = rank() == args_.root;
  in_pieces("reduce", even_pieces(is_root ? static_cast<std::byte*>(args_.output) : nullptr), Results::kToRoot);
}

void OrderedSum::reduce_scatter() {
  if (size() == 1) return copy_alone();
  const uint64_t element = sdk::size_of(args_.dtype);
  std::vector<Piece> pieces;
  const auto* input = static_cast<const std::byte*>(args_.input);
  for (int owner = 0; owner < size(); ++owner) {
    const uint64_t nbytes = (args_.counts ? args_.counts[owner] : args_.count) * element;
    pieces.push_back({input, owner == rank() ? static_cast<std::byte*>(args_.output) : nullptr, nbytes});
    input += nbytes;
  }
  in_pieces("reduce_scatter", pieces, Results::kStay);
}

void OrderedSum::at_once(Operation& operation) {
  const uint64_t nbytes = args_.count * sdk::size_of(args_.dtype);
  const auto n = static_cast<std::size_t>(size());
  std::array<const std::byte*, 64> few{};
  std::vector<const std::byte*> many(n > few.size() ? n : 0);
  const sdk::Span<const std::byte*> sources(many.empty() ? few.data() : many.data(), n);
  const int mark = tag(kAtOnce, Results::kToAll);
  std::byte* next = communicator_.scratch_.of(nbytes * (n - 1));
  for (int peer = 0; peer < size(); ++peer) {
    const std::byte*& source = sources[static_cast<std::size_t>(peer)];
    source = static_cast<const std::byte*>(args_.input);
    if (peer == rank()) continue;
    operation.receive(peer, next, nbytes, mark);
    source = next;
    next += nbytes;
  }
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) operation.send(peer, args_.input, nbytes, mark);
  }
  operation.wait_all();
  reduce_in_order(communicator_.float_sum_, args_.dtype, args_.reduce,
                  {sources.data(), n, static_cast<std::byte*>(args_.output), args_.count});
}

void OrderedSum::in_pieces(const char* name, const std::vector<Piece>& pieces, Results results) {
  SharedSum shared(communicator_, args_, results);
  Operation operation(communicator_, [this, name] { return text_of(name, args_, true); });
  const uint64_t nbytes = nbytes_of(pieces);
  if (nbytes > kSmallBytes && communicator_.memory_->is_possible()) {
    shared.announce(operation, tag(kAnnounce, results), nbytes);
    if (shared.is_possible(operation)) {
      return shared.run(operation, tag(kWritten, results), pieces[static_cast<std::size_t>(rank())]);
    }
  }
  if (results == Results::kToAll && is_for_at_once(nbytes)) return at_once(operation);
  from_messages(operation, pieces, results);
}

void OrderedSum::from_messages(Operation& operation, const std::vector<Piece>& pieces, Results results) {
  const std::size_t inputs = operation.mark();
  for (int step = 1; step < size(); ++step) {
    const int owner = (rank() + step) % size();
    send(operation, owner, pieces[static_cast<std::size_t>(owner)], tag(kToOwner, results));
  }
  const std::size_t inputs_end = operation.mark();
  reduce_own(operation, pieces[static_cast<std::size_t>(rank())], results);
  // Results of others are received last: in place they go where messages to their owner were read from.
  operation.wait(inputs, inputs_end);
  for (int owner = 0; owner < size() && results != Results::kStay; ++owner) {
    const Piece& piece = pieces[static_cast<std::size_t>(owner)];
    if (owner == rank() || !piece.output) continue;
    for (uint64_t segment = 0; segment < segments_of(piece.nbytes); ++segment) {
      operation.receive(owner, piece.output + segment * kSegmentBytes, length_of(segment, piece.nbytes),
                        tag(kFromOwner, results));
    }
  }
  operation.wait_all();
}

void OrderedSum::send(Operation& operation, int owner, const Piece& piece, int mark) const {
  for (uint64_t segment = 0; segment < segments_of(piece.nbytes); ++segment) {
    operation.send(owner, piece.input + segment * kSegmentBytes, length_of(segment, piece.nbytes), mark);
  }
}

// Segment by segment: all ranks' parts arrive, are reduced, and the result is sent on. Few of them are received at a
// time, so that they are in the cache still when they are reduced.
void OrderedSum::reduce_own(Operation& operation, const Piece& own, Results results) {
  const auto n = static_cast<std::size_t>(size());
  const uint64_t count = segments_of(own.nbytes);
  const uint64_t room = std::min(own.nbytes, kSegmentBytes);  // of a rank's part
  std::byte* const arrivals = communicator_.scratch_.of(kWindow * room * (n - 1) + (own.output ? 0 : own.nbytes));
  std::byte* const output = own.output ? own.output : arrivals + kWindow * room * (n - 1);
  const auto arrival = [&](uint64_t segment, int peer) {
    return arrivals + (segment % kWindow * (n - 1) + static_cast<uint64_t>(peer < rank() ? peer : peer - 1)) * room;
  };
  std::array<std::size_t, kWindow> first{}, last{};  // marks of what is received, by place in the window
  const auto receive = [&](uint64_t segment) {
    first[segment % kWindow] = operation.mark();
    for (int peer = 0; peer < size() && segment < count; ++peer) {
      if (peer == rank()) continue;
      operation.receive(peer, arrival(segment, peer), length_of(segment, own.nbytes), tag(kToOwner, results));
    }
    last[segment % kWindow] = operation.mark();
  };
  for (uint64_t segment = 0; segment < kWindow; ++segment) receive(segment);
  std::vector<const std::byte*> sources(n);
  for (uint64_t segment = 0; segment < count; ++segment) {
    operation.wait(first[segment % kWindow], last[segment % kWindow]);
    const uint64_t begin = segment * kSegmentBytes, length = length_of(segment, own.nbytes);
    for (int peer = 0; peer < size(); ++peer) {
      sources[static_cast<std::size_t>(peer)] = peer == rank() ? own.input + begin : arrival(segment, peer);
    }
    reduce_in_order(communicator_.float_sum_, args_.dtype, args_.reduce,
                    {sources.data(), n, output + begin, length / sdk::size_of(args_.dtype)});
    for (int peer = 0; peer < size(); ++peer) {
      const bool wants_it = results == Results::kToAll || (results == Results::kToRoot && peer == args_.root);
      if (peer != rank() && wants_it) operation.send(peer, output + begin, length, tag(kFromOwner, results));
    }
    receive(segment + kWindow);
  }
}

}  // namespace cohort::mpi
