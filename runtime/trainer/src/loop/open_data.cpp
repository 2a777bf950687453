#include "loop/open_data.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <string>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/runtime.hpp>

#include "failure/hook_place.hpp"

namespace cohort {
namespace {

constexpr std::chrono::nanoseconds kLongestRound = std::chrono::seconds(1);

void set_up(DataModule& data, Stage stage, int rank) {
  in_hook({.hook = "setup", .rank = rank}, [&] { data.setup(stage); });
}

/// Prepares on this rank while all ranks compare in rounds who is done: so each hears within a round of a rank that is
/// lost, and --timeout limits no download.
void prepare_in_rounds(Runtime& runtime, DataModule& data) {
  const bool prepares = runtime.local_rank() == 0;
  const auto round = std::min(runtime.options().timeout / 4, kLongestRound);
  std::future<void> preparing;
  if (prepares) preparing = std::async(std::launch::async, [&] { data.prepare(); });
  bool all_are_done = false;
  while (!all_are_done) {
    const bool is_done = !prepares || !preparing.valid() || preparing.wait_for(round) == std::future_status::ready;
    if (is_done && preparing.valid()) preparing.get();
    const std::string state = is_done ? "done" : "rank " + std::to_string(runtime.rank()) + " prepares";
    all_are_done = runtime.is_same_on_all_ranks(state, "waiting until the data is prepared") && is_done;
  }
}

std::vector<Loader> checked(std::vector<Loader> loaders, const std::string& name) {
  if (loaders.size() == 1 && loaders[0].empty()) return {};
  std::set<std::string> suffixes;
  for (size_t i = 0; i < loaders.size(); ++i) {
    const std::string suffix = suffix_of(loaders, i);
    if (loaders[i].name.find_first_of(",/") != std::string::npos || host::on_one_line(suffix) != suffix) {
      throw UserError("a loader of the " + name + " is called " + host::in_quotes(loaders[i].name) +
                      "; names of metrics end in it: use letters, digits, '_' and '-'");
    }
    if (suffixes.insert(suffix).second) continue;
    throw UserError("two loaders of the " + name + " are called " + host::in_quotes(suffix.substr(1)) +
                    "; give each a name of its own, because their metrics are told apart by it");
  }
  return loaders;
}

}  // namespace

void prepare_once(Runtime& runtime, DataModule& data) {
  if (data.is_prepared_) return;
  in_hook({.hook = "prepare", .rank = runtime.rank()}, [&] {
    const bool is_alone = !runtime.is_connected() || runtime.world_size() == 1;
    is_alone ? data.prepare() : prepare_in_rounds(runtime, data);
  });
  data.is_prepared_ = true;
}

std::string suffix_of(const std::vector<Loader>& loaders, size_t index) {
  if (loaders.size() == 1) return "";
  return "/" + (loaders[index].name.empty() ? std::to_string(index) : loaders[index].name);
}

FitData open_fit_data(DataModule& data, const LoopLimits& limits, int rank) {
  set_up(data, Stage::kFit, rank);
  FitData opened{data.train(), checked(data.validation_loaders(), "validation data")};
  if (!limits.overfits) return opened;
  opened.train.shuffle = false;
  opened.train.sampler = {};
  if (!opened.validation.empty()) opened.validation = {opened.train};
  return opened;
}

std::vector<Loader> open_evaluation_data(DataModule& data, Stage stage, int rank) {
  set_up(data, stage, rank);
  return stage == Stage::kTest ? checked(data.test_loaders(), "test data")
                               : checked(data.validation_loaders(), "validation data");
}

Loader open_prediction_data(DataModule& data, int rank) {
  set_up(data, Stage::kPredict, rank);
  return data.predict();
}

}  // namespace cohort
