// all_reduce over messages: sums are taken left to right in rank order, so that every rank has the same bits, the same
// as on any other collective that does so.
#include <algorithm>
#include <cstring>
#include <vector>

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/operation_checks.hpp>
#include <cohort/sdk/reduce.hpp>

#include "batch.hpp"

namespace cohort::gloo {

namespace {

constexpr uint64_t kAtOnceBytes = 256 << 10;  // received by a rank; below, one round trip less is worth the bytes
constexpr uint64_t kSegmentBytes = 1 << 20;   // of a piece: reduced while the next one arrives

enum Kind : uint64_t { kAtOnce = 16, kToOwner = 17, kFromOwner = 18 };

/// What all ranks know of the operation, in a tag.
int32_t mark_of(int number, Kind kind, const cohort_op_args& args) {
  return tag_of(number, {kind, static_cast<uint64_t>(args.dtype), static_cast<uint64_t>(args.reduce), args.count});
}

/// A range of elements that one rank reduces, cut into segments.
struct Piece {
  std::byte* output;
  const std::byte* input;
  uint64_t nbytes;

  uint64_t segments() const { return (nbytes + kSegmentBytes - 1) / kSegmentBytes; }
  static uint64_t begin(uint64_t segment) { return segment * kSegmentBytes; }
  uint64_t length(uint64_t segment) const { return std::min(kSegmentBytes, nbytes - begin(segment)); }
};

std::vector<Piece> pieces_of(const cohort_op_args& args, int size) {
  const auto ranks = static_cast<uint64_t>(size);
  const uint64_t element = sdk::size_of(args.dtype);
  std::vector<Piece> pieces;
  uint64_t offset = 0;
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    const uint64_t nbytes = (args.count / ranks + (rank < args.count % ranks ? 1 : 0)) * element;
    pieces.push_back(
        {static_cast<std::byte*>(args.output) + offset, static_cast<const std::byte*>(args.input) + offset, nbytes});
    offset += nbytes;
  }
  return pieces;
}

}  // namespace

void Communicator::all_reduce(const cohort_op_args& args) {
  sdk::check_reduction(args, size(), "gloo all_reduce");
  const uint64_t nbytes = args.count * sdk::size_of(args.dtype);
  Batch batch(*this, [&] {
    return std::string("all_reduce(") + sdk::name_of_reduce(args.reduce) + ", " + sdk::name_of(args.dtype) + ", " +
           std::to_string(args.count) + " elements) on '" + name_ + "'";
  });
  if (size() == 1) {
    if (args.input != args.output && nbytes > 0) std::memcpy(args.output, args.input, nbytes);
    return;
  }
  if (nbytes * (ranks_.size() - 1) <= kAtOnceBytes) {
    reduce_at_once(batch, args);
  } else {
    reduce_in_pieces(batch, args);
  }
}

// Everybody gets everything and reduces it.
void Communicator::reduce_at_once(Batch& batch, const cohort_op_args& args) {
  const uint64_t nbytes = args.count * sdk::size_of(args.dtype);
  const int32_t mark = mark_of(number_, kAtOnce, args);
  std::vector<const std::byte*> sources(ranks_.size());
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) batch.send(peer, args.input, nbytes, mark);
  }
  std::byte* next = scratch_.of(nbytes * (ranks_.size() - 1));
  for (int peer = 0; peer < size(); ++peer) {
    auto& source = sources[static_cast<std::size_t>(peer)];
    source = static_cast<const std::byte*>(args.input);
    if (peer == rank_) continue;
    batch.receive(peer, next, nbytes, mark);
    source = next;
    next += nbytes;
  }
  batch.wait_all();
  sdk::reduce_elements(args.dtype, args.reduce, {sources.data(), sources.size()}, static_cast<std::byte*>(args.output),
                       args.count);
}

// Every rank reduces a piece, segment by segment, and sends each segment on as soon as it is ready. A segment of
// another owner's result may be received in place: it comes after the owner has received what was sent from there.
void Communicator::reduce_in_pieces(Batch& batch, const cohort_op_args& args) {
  const uint64_t element = sdk::size_of(args.dtype);
  const int32_t to_owner = mark_of(number_, kToOwner, args), from_owner = mark_of(number_, kFromOwner, args);
  const std::vector<Piece> pieces = pieces_of(args, size());
  const Piece& own = pieces[static_cast<std::size_t>(rank_)];
  std::vector<const std::byte*> sources(ranks_.size(), own.input);
  std::byte* next = scratch_.of(own.nbytes * (ranks_.size() - 1));
  std::vector<std::byte*> arrivals(ranks_.size());
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    sources[static_cast<std::size_t>(peer)] = arrivals[static_cast<std::size_t>(peer)] = next;
    next += own.nbytes;
  }
  const auto for_segments = [this](const Piece& piece, auto&& body) {
    for (uint64_t segment = 0; segment < piece.segments(); ++segment) {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer != rank_) body(peer, Piece::begin(segment), piece.length(segment));
      }
    }
  };
  for_segments(pieces.front(), [&](int peer, uint64_t begin, uint64_t) {
    const Piece& piece = pieces[static_cast<std::size_t>(peer)];
    if (begin < piece.nbytes) batch.send(peer, piece.input + begin, piece.length(begin / kSegmentBytes), to_owner);
  });
  std::vector<std::size_t> received;
  for_segments(own, [&](int peer, uint64_t begin, uint64_t length) {
    received.push_back(batch.receive(peer, arrivals[static_cast<std::size_t>(peer)] + begin, length, to_owner));
  });
  for (int peer = 0; peer < size(); ++peer) {
    const Piece& piece = pieces[static_cast<std::size_t>(peer)];
    for (uint64_t segment = 0; peer != rank_ && segment < piece.segments(); ++segment) {
      batch.receive(peer, piece.output + Piece::begin(segment), piece.length(segment), from_owner);
    }
  }
  auto arrived = received.begin();
  for (uint64_t segment = 0; segment < own.segments(); ++segment) {
    for (int peer = 1; peer < size(); ++peer) batch.wait(*arrived++);
    const uint64_t begin = Piece::begin(segment);
    std::vector<const std::byte*> parts;
    for (const std::byte* source : sources) parts.push_back(source + begin);
    const uint64_t length = own.length(segment);
    sdk::reduce_elements(args.dtype, args.reduce, {parts.data(), parts.size()}, own.output + begin, length / element);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_) batch.send(peer, own.output + begin, length, from_owner);
    }
  }
  batch.wait_all();
}

}  // namespace cohort::gloo
