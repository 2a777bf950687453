#include "threads.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <ATen/Parallel.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/machine.hpp>

namespace cohort {
namespace {

// Returns the number that the text holds, with blanks around it and a sign as OpenMP allows them, or nothing.
std::optional<int64_t> number_of_threads(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, count);
  if (failure != std::errc() || stop != end || count < 1) return std::nullopt;
  return count;
}

// Throws UserError if the text is not a number of threads or a list of them, one for each level of nesting, of which
// the first counts. OpenMP itself would ignore a value that it does not understand.
void check_openmp(const std::string& text) {
  std::optional<int64_t> first;
  for (std::size_t begin = 0, end = 0; end != text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    const auto count = number_of_threads(std::string_view(text).substr(begin, end - begin));
    if (!count) {
      throw UserError("environment: OMP_NUM_THREADS=" + host::in_quotes(text) +
                      " is no number of threads; correct it, or unset it");
    }
    first = first.value_or(*count);
  }
  host::check_workers(*first, "OMP_NUM_THREADS", "threads for each rank");
}

}  // namespace

ThreadChoice choose_threads(const Options& options, const host::Topology& topology, const host::Variables& variables) {
  if (options.threads) return {*options.threads, "--threads"};
  const auto omp = variables.find("OMP_NUM_THREADS");
  if (omp != variables.end() && !omp->second.empty()) {
    check_openmp(omp->second);
    return {at::get_num_threads(), "OMP_NUM_THREADS"};
  }
  const int ranks = topology.ranks_on_machine;
  const int cores = host::usable_cores();
  return {std::max(1, cores / ranks),
          std::to_string(cores) + " usable cores / " + std::to_string(ranks) + " ranks here"};
}

}  // namespace cohort
