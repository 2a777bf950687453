#include <algorithm>
#include <sstream>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/store.hpp>
#include <cohort/sdk/hash.hpp>

#include "store/farewell.hpp"

namespace cohort::host {
namespace {

constexpr size_t kMaxTableLines = 20;
constexpr std::string_view kSame = "same";
constexpr std::string_view kDiffer = "differ";
constexpr std::string_view kMissing = "missing ";

std::string key_of(const Agreement& agreement, std::string_view name) {
  return "agree/" + std::to_string(agreement.sequence) + "/" + std::string(name);
}

std::string key_of(const Agreement& agreement, std::string_view part, int rank) {
  return key_of(agreement, std::string(part) + "/" + std::to_string(rank));
}

struct Collected {
  std::vector<std::string> values;  // by rank, empty where missing
  std::vector<int> missing;
};

Collected collect(const Agreement& agreement, std::string_view part) {
  Collected result;
  result.values.resize(static_cast<size_t>(agreement.world_size));
  const auto deadline = std::chrono::steady_clock::now() + agreement.timeout;
  for (int rank = 0; rank < agreement.world_size; ++rank) {
    const auto left = std::max(deadline - std::chrono::steady_clock::now(), std::chrono::nanoseconds(0));
    auto value = agreement.store.get(key_of(agreement, part, rank), left);
    if (value) {
      result.values[static_cast<size_t>(rank)] = std::move(*value);
    } else {
      result.missing.push_back(rank);
    }
  }
  return result;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Line by line: what rank 0 says, and every rank that says something else.
std::string difference_table(const std::vector<std::string>& texts) {
  std::vector<std::vector<std::string>> lines;
  size_t longest = 0;
  for (const auto& text : texts) longest = std::max(longest, lines.emplace_back(lines_of(text)).size());
  const auto at = [&](size_t rank, size_t line) {
    return line < lines[rank].size() ? lines[rank][line] : std::string("(nothing)");
  };
  std::string table;
  size_t shown = 0;
  for (size_t line = 0; line < longest && shown < kMaxTableLines; ++line) {
    bool rank0_shown = false;
    for (size_t rank = 1; rank < lines.size() && shown < kMaxTableLines; ++rank) {
      if (at(rank, line) == at(0, line)) continue;
      if (!rank0_shown) table += "\n  rank 0: " + at(0, line);
      rank0_shown = true;
      table += "\n  rank " + std::to_string(rank) + ": " + at(rank, line);
      ++shown;
    }
  }
  return table;
}

std::string hash_verdict(const Agreement& agreement) {
  const Collected hashes = collect(agreement, "hash");
  if (!hashes.missing.empty()) return std::string(kMissing) + join(hashes.missing);
  const bool same = std::all_of(hashes.values.begin(), hashes.values.end(),
                                [&](const std::string& hash) { return hash == hashes.values.front(); });
  return std::string(same ? kSame : kDiffer);
}

}  // namespace

uint64_t fingerprint(std::string_view text) {
  sdk::Hash hash({text.size()});
  hash.add(text.data(), text.size());
  return hash.value();
}

void throw_difference(const Agreement& agreement, const std::string& topic, std::string_view text,
                      std::string_view problem) {
  agreement.store.set(key_of(agreement, "text", agreement.rank), text);
  if (agreement.rank == 0) {
    agreement.store.set(key_of(agreement, "table"), difference_table(collect(agreement, "text").values));
  }
  const std::string table = published_by_rank0(agreement, topic, key_of(agreement, "table"));
  leave_together(agreement, key_of(agreement, "read"), agreement.world_size);
  throw UserError(std::string(problem) + table);
}

void agree(const Agreement& agreement, const std::string& topic, std::string_view text, std::string_view problem) {
  if (agreement.world_size == 1) return;
  agreement.store.set(key_of(agreement, "hash", agreement.rank), std::to_string(fingerprint(text)));
  if (agreement.rank == 0) agreement.store.set(key_of(agreement, "verdict"), hash_verdict(agreement));
  const std::string verdict = published_by_rank0(agreement, topic, key_of(agreement, "verdict"));
  if (verdict == kSame) return;
  if (verdict.starts_with(kMissing)) {
    throw_missing(agreement, topic, verdict.substr(kMissing.size()), key_of(agreement, "read"));
  }
  throw_difference(agreement, topic, text, problem);
}

}  // namespace cohort::host
