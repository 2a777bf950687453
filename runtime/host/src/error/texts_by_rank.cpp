#include <cohort/host/texts_by_rank.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace cohort::host {

std::string texts_by_rank(std::span<const std::string> texts, std::string_view link) {
  std::vector<std::pair<std::string, std::string>> groups;  // text, ranks
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const auto known = std::ranges::find(groups, texts[rank], &std::pair<std::string, std::string>::first);
    if (known == groups.end()) {
      groups.emplace_back(texts[rank], std::to_string(rank));
    } else {
      known->second += ", " + std::to_string(rank);
    }
  }
  std::string list;
  for (const auto& [text, ranks] : groups) {
    const bool several = ranks.find(',') != std::string::npos;
    list += (list.empty() ? "" : "; ") + std::string(several ? "ranks " : "rank ") + ranks + std::string(link) + text;
  }
  return list;
}

}  // namespace cohort::host
