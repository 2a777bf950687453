#include "exact_sums.hpp"

#include <utility>

#include "calls.hpp"

namespace cohort::nccl {
namespace {

constexpr uint64_t kElement = 2;  // bytes
constexpr uint64_t kPack = 8;     // elements: 16 bytes, which kernels move at once where memory is aligned to them

bool is_power_of_two(std::size_t size) {
  return (size & (size - 1)) == 0;
}

uint64_t whole_packs(uint64_t count) {
  return (count + kPack - 1) / kPack * kPack;
}

}  // namespace

ExactSums::Parts ExactSums::parts_of(std::vector<uint64_t> counts) {
  Parts parts{std::move(counts), {}};
  uint64_t first = 0;
  for (const uint64_t count : parts.counts) parts.firsts.push_back(std::exchange(first, first + count));
  return parts;
}

// Equal ones of whole packs, as ncclAllGather and kernels want them; the last has the rest as well.
ExactSums::Parts ExactSums::even_parts() const {
  const auto size = static_cast<uint64_t>(link_.size());
  const uint64_t each = args_.count / size / kPack * kPack;
  std::vector<uint64_t> counts(size, each);
  counts.back() = args_.count - each * (size - 1);
  return parts_of(std::move(counts));
}

uint64_t ExactSums::nbytes(const Parts& parts, int rank) {
  return parts.counts[static_cast<std::size_t>(rank)] * kElement;
}

std::byte* ExactSums::at(const void* whole, const Parts& parts, int rank) {
  return static_cast<std::byte*>(const_cast<void*>(whole)) + parts.firsts[static_cast<std::size_t>(rank)] * kElement;
}

void ExactSums::all_reduce() {
  const Parts parts = even_parts();
  std::byte* const own = at(args_.output, parts, link_.rank());
  sum_own_part("all_reduce", parts, own);
  const int last = link_.size() - 1;
  const uint64_t each = last > 0 ? nbytes(parts, 0) : 0, rest = nbytes(parts, last) - each;
  std::byte* const behind = at(args_.output, parts, last) + each;
  link_.enqueue("all_reduce", args_.stream, [&](ncclComm_t comm, cudaStream_t stream) {
    const Nccl& nccl = link_.around().nccl;
    Calls calls;
    if (each > 0) calls.add([&] { return nccl.AllGather(own, args_.output, each, ncclUint8, comm, stream); });
    if (rest > 0) calls.add([&] { return nccl.Broadcast(behind, behind, rest, ncclUint8, last, comm, stream); });
    return calls.result();
  });
}

void ExactSums::reduce() {
  const Parts parts = even_parts();
  const bool is_root = link_.rank() == args_.root;
  const uint64_t own_nbytes = nbytes(parts, link_.rank());
  const Scratch scratch(pool_, is_root ? 0 : own_nbytes, args_.stream);
  std::byte* const own = is_root ? at(args_.output, parts, args_.root) : scratch.at(0);
  sum_own_part("reduce", parts, own);
  std::vector<cohort_message> messages;
  if (!is_root) messages.push_back({own, own_nbytes, args_.root, 1});
  for (int rank = 0; is_root && rank < link_.size(); ++rank) {
    if (rank != args_.root) messages.push_back({at(args_.output, parts, rank), nbytes(parts, rank), rank, 0});
  }
  link_.exchange("reduce", {messages.data(), messages.size()}, args_.stream);
}

void ExactSums::reduce_scatter() {
  std::vector<uint64_t> counts(static_cast<std::size_t>(link_.size()), args_.count);
  if (args_.counts) counts.assign(args_.counts, args_.counts + link_.size());
  sum_own_part("reduce_scatter", parts_of(std::move(counts)), args_.output);
}

void ExactSums::sum_own_part(const char* name, const Parts& parts, void* output) {
  const int own = link_.rank();
  const uint64_t own_nbytes = nbytes(parts, own), stride = whole_packs(own_nbytes / kElement);
  const Scratch pieces(pool_, stride * kElement * static_cast<uint64_t>(link_.size()), args_.stream);
  std::vector<cohort_message> messages;
  for (int rank = 0; rank < link_.size(); ++rank) {
    if (rank == own) continue;
    messages.push_back({at(args_.input, parts, rank), nbytes(parts, rank), rank, 1});
    messages.push_back({pieces.at(static_cast<uint64_t>(rank) * stride * kElement), own_nbytes, rank, 0});
  }
  link_.exchange(name, {messages.data(), messages.size()}, args_.stream);
  const sdk::Elements out{output, own_nbytes / kElement, args_.dtype, args_.stream};
  if (out.count > 0) add_up(pieces, at(args_.input, parts, own), out);
}

// `pieces` are those of the other ranks, each at its rank's place.
void ExactSums::add_up(const Scratch& pieces, const void* own, const sdk::Elements& output) {
  const sdk::CoreKernels kernels = host_.core_kernels(output.stream.device_type);
  const auto rank = static_cast<std::size_t>(link_.rank()), size = static_cast<std::size_t>(link_.size());
  const uint64_t stride = whole_packs(output.count) * kElement;
  const bool is_mean = args_.reduce == COHORT_REDUCE_MEAN;
  if (is_mean && !is_power_of_two(size)) {
    kernels.copy({pieces.at(rank * stride), output.count, output.dtype, output.stream}, own);
    return add_up_and_divide(pieces, output);
  }
  std::vector<const void*> addends;
  for (std::size_t other = 0; other < size; ++other) addends.push_back(pieces.at(other * stride));
  addends[rank] = own;
  kernels.sum_of_n(output, {addends.data(), size}, is_mean ? 1.0 / static_cast<double>(size) : 1.0);
}

// Kernels multiply by a factor, and 1 / size is rounded unless size is a power of two, which shows where the quotient
// is halfway between two 16-bit numbers. A sum in float32 times 1 / size in float64 rounds to the quotient in float32:
// that is never halfway between two of these, and farther from there than the product in float64 is from it.
void ExactSums::add_up_and_divide(const Scratch& pieces, const sdk::Elements& output) {
  const sdk::CoreKernels kernels = host_.core_kernels(output.stream.device_type);
  const uint64_t count = output.count, stride = whole_packs(count);
  const auto size = static_cast<std::size_t>(link_.size());
  const Scratch singles(pool_, size * stride * sizeof(float), output.stream);
  const Scratch doubles(pool_, count * sizeof(double), output.stream);
  std::vector<const void*> addends;
  for (std::size_t rank = 0; rank < size; ++rank) {
    addends.push_back(singles.at(rank * stride * sizeof(float)));
  }
  const uint64_t with_gaps = size * stride - (stride - count);
  kernels.cast({singles.at(0), with_gaps, COHORT_FLOAT32, output.stream}, pieces.at(0), output.dtype);
  const sdk::Elements sum{singles.at(0), count, COHORT_FLOAT32, output.stream};
  const sdk::Elements quotient{doubles.at(0), count, COHORT_FLOAT64, output.stream};
  kernels.sum_of_n(sum, {addends.data(), size});
  kernels.cast(quotient, sum.data, sum.dtype);
  kernels.scale(quotient, 1.0 / static_cast<double>(size));
  kernels.cast(sum, quotient.data, quotient.dtype);
  kernels.cast(output, sum.data, sum.dtype);
}

}  // namespace cohort::nccl
