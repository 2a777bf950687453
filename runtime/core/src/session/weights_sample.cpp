// Hashes a sample of each parameter's bytes; the header says which bytes.
//
// Ranks compare one hash over all parameters first, which is 8 bytes. Only if that differs do they exchange the hashes
// of single parameters, from which first_difference tells ranks and names.
#include "weights_sample.hpp"

#include <sstream>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cohort/host/error.hpp>
#include <cohort/sdk/hash.hpp>

namespace cohort {
namespace {

constexpr size_t kLine = 64, kStride = 16 << 10, kWhole = 1 << 10;
constexpr size_t kShown = 3;

uint64_t sample_of(const at::Tensor& tensor, uint64_t step) {
  const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous();
  const auto* const bytes = static_cast<const std::byte*>(flat.const_data_ptr());
  const size_t size = flat.nbytes();
  sdk::Hash hash;
  hash.add(size);
  if (size <= kWhole) {
    hash.add(bytes, size);
    return hash.value();
  }
  constexpr uint64_t kSpread = 97;  // so that the samples of consecutive steps are far apart
  const size_t offset = static_cast<size_t>(step * kSpread % (kStride / kLine)) * kLine;
  hash.add(bytes, kLine);
  for (size_t at = offset; at + kLine <= size; at += kStride) hash.add(bytes + at, kLine);
  hash.add(bytes + size - kLine, kLine);
  return hash.value();
}

std::vector<uint64_t> numbers_from(const std::string& text) {
  std::istringstream in(text);
  std::vector<uint64_t> numbers;
  for (uint64_t number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

}  // namespace

NamedHashes weights_sample(const torch::nn::Module& module, uint64_t step) {
  NamedHashes hashes;
  for (const auto& item : module.named_parameters()) hashes.emplace_back(item.key(), sample_of(item.value(), step));
  return hashes;
}

uint64_t hash_of(const NamedHashes& hashes) {
  sdk::Hash hash;
  for (const auto& [name, value] : hashes) hash.add(value);
  return hash.value();
}

std::string to_text(const NamedHashes& hashes) {
  std::string text;
  for (const auto& [name, value] : hashes) text += std::to_string(value) + "\n";
  return text;
}

std::string first_difference(const NamedHashes& own, std::span<const std::string> texts) {
  std::vector<std::vector<uint64_t>> ranks;
  for (const std::string& text : texts) ranks.push_back(numbers_from(text));
  std::string others, names;
  size_t differing = 0;
  const auto at = [&](size_t rank, size_t i) { return i < ranks[rank].size() ? ranks[rank][i] : 0; };
  for (size_t i = 0; i < own.size(); ++i) {
    const auto differs = [&](size_t rank) { return at(rank, i) != at(0, i); };
    bool any = false;
    for (size_t rank = 1; rank < ranks.size() && !any; ++rank) any = differs(rank);
    if (any && differing++ < kShown) names += (names.empty() ? "'" : ", '") + own[i].first + "'";
  }
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank] != ranks[0]) others += (others.empty() ? "" : ", ") + std::to_string(rank);
  }
  return "rank " + others + " from rank 0 in " + std::to_string(differing) + " of " + std::to_string(own.size()) +
         " parameters, first in " + names;
}

void check_equal_weights(host::Rank& rank, const torch::nn::Module& module, uint64_t step) {
  const NamedHashes own = weights_sample(module, step);
  if (rank.is_same_on_all_ranks(hash_of(own), "comparing the ranks' weights")) return;
  const std::string found = first_difference(own, rank.all_gather(to_text(own)));
  throw TrainingFailed("after step " + std::to_string(step) + " the ranks have different weights: " + found +
                       "; look for what a rank does alone: changes of weights or optimizer settings, a layer without "
                       "reduce_bucket or configure_model, processors that round differently");
}

}  // namespace cohort
