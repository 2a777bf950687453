#include "layout.hpp"

#include <algorithm>
#include <charconv>

#include <cohort/sdk/error.hpp>

namespace cohort::hier {

Layout::Layout(const std::vector<int>& nodes) {
  std::vector<int> known;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const auto found = std::find(known.begin(), known.end(), nodes[rank]);
    const auto node = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(nodes[rank]);
      ranks_of.emplace_back();
    }
    node_of.push_back(static_cast<int>(node));
    local_of.push_back(static_cast<int>(ranks_of[node].size()));
    ranks_of[node].push_back(static_cast<int>(rank));
  }
  is_even = std::all_of(ranks_of.begin(), ranks_of.end(),
                        [&](const std::vector<int>& ranks) { return ranks.size() == ranks_of.front().size(); });
}

std::vector<int> Layout::column_ranks(int rank) const {
  std::vector<int> column;
  for (const std::vector<int>& ranks : ranks_of) column.push_back(ranks[static_cast<std::size_t>(local(rank))]);
  return column;
}

int node_from(const std::string& text, const std::string& who) {
  int node = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, node);
  if (failure == std::errc{} && stop == end) return node;
  throw sdk::Error(COHORT_DATA_LOSS,
                   who +
                       " wrote something else than the number of its node into the job's store, which hier expects; "
                       "start the same cohort on all ranks");
}

}  // namespace cohort::hier
