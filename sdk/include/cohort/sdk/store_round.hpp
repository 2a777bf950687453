// A round over a store: every rank of a connecting group writes a value and reads the values of all ranks.
//
// For collectives that connect: their ranks share only the store of cohort_connect_args so far. Threads: [main].
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/sdk/duration.hpp>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {

namespace detail {

/// Reads a value of any length: calls `get` with a buffer of the usual size, and again with a larger one if that is too
/// small. Returns the status of the last call.
template <class Get>
cohort_status read_value(Get&& get, std::string& value) {
  constexpr std::size_t kUsualValueBytes = 4096;
  value.assign(kUsualValueBytes, '\0');
  uint64_t nbytes = 0;
  cohort_status status = get(&value[0], value.size(), &nbytes);
  if (status == COHORT_RESOURCE_EXHAUSTED && nbytes > value.size()) {
    value.assign(nbytes, '\0');
    status = get(&value[0], value.size(), &nbytes);
  }
  if (status == COHORT_OK) value.resize(nbytes);
  return status;
}

/// Returns one text with all `texts`, each after its length.
inline std::string packed(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += std::to_string(text.size()) + ":" + text;
  return all;
}

/// Returns the texts that `packed` joined, up to the first unreadable one.
inline std::vector<std::string> unpacked(const std::string& all) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t colon = all.find(':', at);
    const bool is_number =
        colon != std::string::npos && colon > at && colon - at < 10 && all.find_first_not_of("0123456789", at) == colon;
    const std::size_t length = is_number ? std::stoul(all.substr(at, colon - at)) : all.size();
    if (!is_number || length > all.size() - colon - 1) break;
    texts.push_back(all.substr(colon + 1, length));
    at = colon + 1 + length;
  }
  return texts;
}

}  // namespace detail

/// Returns the group's size and then `value`, so that ranks of groups of different sizes notice.
inline std::string with_size(int size, const std::string& value) {
  return std::to_string(size) + "\n" + value;
}

inline bool has_size(int size, const std::string& text) {
  const std::string own = std::to_string(size) + "\n";
  return text.compare(0, own.size(), own) == 0;
}

/// Returns the value in `text` without its size. Throws FAILED_PRECONDITION, which names the rank `who`, if that size
/// is not `size`.
inline std::string without_size(int size, const std::string& text, const std::string& who) {
  if (has_size(size, text)) return text.substr(text.find('\n') + 1);
  const std::size_t digits = text.find_first_not_of("0123456789");
  const bool is_number = digits > 0 && digits < 10 && text[digits] == '\n';
  throw failed_precondition((is_number ? who + " connects a group of " + text.substr(0, digits) + " rank(s)"
                                       : who + " does not say how many ranks it connects") +
                            " where one of " + std::to_string(size) + " was expected" +
                            "; start all ranks with the same WORLD_SIZE and the same cohort");
}

/// Returns all ranks' values, indexed by rank. `round` is a key for this round alone. Collective. Throws
/// DEADLINE_EXCEEDED with the ranks that wrote nothing before `deadline`, and FAILED_PRECONDITION if a rank connects a
/// group of another size.
inline std::vector<std::string> store_round(const cohort_connect_args& args, const std::string& round,
                                            const std::string& value, std::chrono::steady_clock::time_point deadline) {
  const auto name = [&](int rank) { return std::to_string(args.job_ranks ? args.job_ranks[rank] : rank); };
  const auto check = [&](cohort_status status) {
    if (status == COHORT_OK) return;
    throw Error(status, "the job's store does not answer rank " + name(args.rank) +
                            ": rank 0 or the launcher, which serves it, is gone or stopped");
  };
  const auto key = [&](int rank) { return round + "/" + std::to_string(rank); };
  const auto time_left = [&]() -> std::chrono::nanoseconds {
    const auto left = deadline - std::chrono::steady_clock::now();
    return std::max<std::chrono::nanoseconds>(left, std::chrono::milliseconds(1));
  };
  const std::string own = with_size(args.size, value);
  check(args.store->vt->set(args.store, key(args.rank).c_str(), own.data(), own.size()));
  const auto read = [&](const std::string& from, std::string& found) {
    const cohort_status status = detail::read_value(
        [&](char* buffer, uint64_t capacity, uint64_t* nbytes) {
          return args.store->vt->get(args.store, from.c_str(), time_left().count(), buffer, capacity, nbytes);
        },
        found);
    if (status != COHORT_DEADLINE_EXCEEDED) check(status);
    return status == COHORT_OK;
  };
  // Rank 0 reads all values and writes them as one, because otherwise the store would serve size^2 reads. It reports a
  // rank with another group size at once.
  const std::string summary = round + "/all";
  std::vector<std::string> texts, values;
  std::string all;
  if (args.rank != 0 && read(summary, all)) texts = detail::unpacked(all);
  std::string names;
  std::vector<int32_t> missing;
  for (int rank = 0; rank < args.size; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    if (place >= texts.size() && !read(key(rank), texts.emplace_back())) {
      names += (names.empty() ? "rank " : ", rank ") + name(rank);
      missing.push_back(rank);
      continue;
    }
    const bool is_end = rank + 1 == args.size || !has_size(args.size, texts[place]);
    if (args.rank == 0 && is_end && missing.empty()) {
      all = detail::packed(texts);
      check(args.store->vt->set(args.store, summary.c_str(), all.data(), all.size()));
    }
    // This rank's own value never comes from the store, because others may write there.
    values.push_back(rank == args.rank ? value : without_size(args.size, texts[place], "rank " + name(rank)));
  }
  if (missing.empty()) return values;
  const std::string time = in_words(std::chrono::nanoseconds(args.timeout_ns));
  throw Error(COHORT_DEADLINE_EXCEEDED,
              names + " did not come to connect within " + time + "; look at their logs, or raise --timeout", missing);
}

}  // namespace v1
}  // namespace cohort::sdk
