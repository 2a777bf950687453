#include "loop/data_of_ranks.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/texts_by_rank.hpp>

namespace cohort {
namespace {

constexpr const char* kStream = "a stream";
constexpr std::string_view kSampler = " with a sampler of its own";

bool ends_by_itself(const std::string& text) {
  return text == kStream || text.ends_with(kSampler);
}

}  // namespace

std::string data_text(const Loader& loader) {
  if (loader.stream) return kStream;
  if (!loader.dataset) return "nothing";
  return std::to_string(loader.dataset->size()) + " samples in batches of " + std::to_string(loader.batch_size) +
         (loader.drop_last ? ", without a shorter last one" : "") + (loader.shuffle ? ", shuffled" : "") +
         std::string(loader.sampler ? kSampler : "");
}

std::string warning_of_data(std::span<const std::string> texts, UnevenData uneven) {
  const auto ending = std::ranges::count_if(texts, ends_by_itself);
  if (ending != 0 && ending != std::ssize(texts)) {
    throw UserError("ranks train on different kinds of data (" + host::texts_by_rank(texts, ": ") +
                    "); give all of them the same dataset, stream or sampler");
  }
  const std::string_view which = uneven == UnevenData::kJoin ? "last" : "first";
  return "Ranks have different training data (" + host::texts_by_rank(texts, ": ") + "): an epoch ends with the " +
         std::string(which) +
         " rank that has no batch left, and samples are left out or used twice; give all ranks the same dataset, batch "
         "size and order";
}

}  // namespace cohort
