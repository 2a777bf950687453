#include "layout.hpp"

#include <algorithm>

namespace cohort::hier {

Layout::Layout(const std::vector<int>& nodes) {
  std::vector<int> known;
  for (const int given : nodes) {
    const auto found = std::find(known.begin(), known.end(), given);
    const auto node = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(given);
      node_sizes.push_back(0);
    }
    node_of.push_back(static_cast<int>(node));
    local_of.push_back(node_sizes[node]++);
  }
  is_even = std::all_of(node_sizes.begin(), node_sizes.end(), [&](int size) { return size == node_sizes.front(); });
}

}  // namespace cohort::hier
