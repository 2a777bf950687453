#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/store.hpp>

namespace cohort::host {
namespace {

constexpr size_t kMaxTableLines = 20;
constexpr std::chrono::seconds kLongestFarewell{5};
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

std::string join(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
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

// What rank 0 writes under `key`, read on every rank.
std::string published(const Agreement& agreement, const std::string& topic, const std::string& name) {
  // Twice the time: rank 0 may itself have waited as long as it may for the others.
  auto value = agreement.store.get(key_of(agreement, name), 2 * agreement.timeout);
  if (!value) {
    throw PeerFailed(agreement.who + " heard nothing from rank 0 about " + topic + " within " +
                     std::to_string(std::chrono::duration_cast<std::chrono::seconds>(2 * agreement.timeout).count()) +
                     " s; see rank 0's log");
  }
  return *value;
}

// Rank 0 usually serves the store: it leaves after so many ranks have read what it wrote.
void leave_together(const Agreement& agreement, int readers) {
  agreement.store.add(key_of(agreement, "read"), 1);
  const auto deadline = std::chrono::steady_clock::now() + kLongestFarewell;
  while (agreement.rank == 0 && agreement.store.add(key_of(agreement, "read"), 0) < readers &&
         std::chrono::steady_clock::now() < deadline) {
    agreement.store.get(key_of(agreement, "never"), std::chrono::milliseconds(20));
  }
}

[[noreturn]] void throw_missing(const Agreement& agreement, const std::string& topic, const std::string& ranks) {
  const auto missing = 1 + std::count(ranks.begin(), ranks.end(), ',');
  leave_together(agreement, agreement.world_size - static_cast<int>(missing));
  throw PeerFailed(agreement.who + " waited " +
                   std::to_string(std::chrono::duration_cast<std::chrono::seconds>(agreement.timeout).count()) +
                   " s for all of " + std::to_string(agreement.world_size) + " ranks to bring their " + topic +
                   "; missing: rank " + on_one_line(ranks) + "; look at their logs or raise --timeout");
}

}  // namespace

uint64_t fingerprint(std::string_view text) {  // FNV-1a
  uint64_t hash = 14695981039346656037ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

void throw_difference(const Agreement& agreement, const std::string& topic, std::string_view text,
                      std::string_view problem) {
  agreement.store.set(key_of(agreement, "text", agreement.rank), text);
  if (agreement.rank == 0) {
    agreement.store.set(key_of(agreement, "table"), difference_table(collect(agreement, "text").values));
  }
  const std::string table = published(agreement, topic, "table");
  leave_together(agreement, agreement.world_size);
  throw UserError(std::string(problem) + table);
}

void agree(const Agreement& agreement, const std::string& topic, std::string_view text, std::string_view problem) {
  if (agreement.world_size == 1) return;
  agreement.store.set(key_of(agreement, "hash", agreement.rank), std::to_string(fingerprint(text)));
  if (agreement.rank == 0) agreement.store.set(key_of(agreement, "verdict"), hash_verdict(agreement));
  const std::string verdict = published(agreement, topic, "verdict");
  if (verdict == kSame) return;
  if (verdict.starts_with(kMissing)) throw_missing(agreement, topic, verdict.substr(kMissing.size()));
  throw_difference(agreement, topic, text, problem);
}

}  // namespace cohort::host
