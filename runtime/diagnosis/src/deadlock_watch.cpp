// Each rank looks at its flight recorder twice a second. If it has waited since the last look, it writes its report
// under deadlock/R in the job's store, and removes the text once it moves again. Rank 0 reads all reports while it
// waits itself. If they are the same in two looks and show a deadlock, it writes the sentence under deadlock/found;
// every rank that waits polls that key and then aborts its operations.
#include <cohort/diagnosis/deadlock_watch.hpp>

#include <utility>
#include <vector>

#include <cohort/diagnosis/deadlock.hpp>
#include <cohort/diagnosis/last_words.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/rank_store.hpp>

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kBetweenLooks = 500ms;
constexpr const char* kFound = "deadlock/found";

std::string key_of(int rank) {
  return "deadlock/" + std::to_string(rank);
}

}  // namespace

DeadlockWatch::DeadlockWatch(host::ConnectedRank& rank, std::function<bool()> has_store,
                             std::chrono::milliseconds longest_end)
    : rank_(rank), has_store_(std::move(has_store)), longest_end_(longest_end), store_(rank.store().of_run()) {
  if (store_) thread_ = std::thread([this] { watch(); });
}

DeadlockWatch::~DeadlockWatch() {
  stop();
}

void DeadlockWatch::stop() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, longest_end_, [&] { return has_ended_; })) rank_.store().give_up();
  }
  thread_.join();
}

std::string DeadlockWatch::verdict() const {
  if (!verdict_.empty() || !store_ || !has_store_()) return verdict_;
  try {
    return host::on_one_line(store_->try_get(kFound).value_or(""));
  } catch (const Error&) {
    return "";
  }
}

void DeadlockWatch::watch() {
  try {
    while (verdict_.empty() && !is_stopped()) check();
  } catch (const std::exception& error) {
    rank_.log().debug(std::string("ranks that wait for each other are not looked for any more: ") + error.what());
  }
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

// Waits until the next look. Returns whether there is none.
bool DeadlockWatch::is_stopped() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kBetweenLooks, [&] { return stopping_; });
}

void DeadlockWatch::check() {
  const auto now = rank_.host().recorder().standing();
  // If nothing moved between two looks, every thread is still in the same operation or wait.
  const bool waits = now.at_rest && before_.at_rest && now.moves == before_.moves && !now.running.empty();
  before_ = now;
  if (!waits) return publish("");
  if (!has_store_()) return;
  publish(to_text(now));
  if (rank_.topology().rank == 0) judge();
  verdict_ = host::on_one_line(store_->try_get(kFound).value_or(""));
  if (!verdict_.empty()) rank_.abort();
}

void DeadlockWatch::publish(const std::string& text) {
  if (text == published_ || !has_store_()) return;
  store_->set(key_of(rank_.topology().rank), text);
  published_ = text;
}

// Runs on rank 0. Decides only if all reports are the same as in the look before.
void DeadlockWatch::judge() {
  std::string all;
  std::vector<Waiting> ranks;
  for (int rank = 0; rank < rank_.topology().world_size; ++rank) {
    const std::string text = store_->try_get(key_of(rank)).value_or("");
    const auto waiting = waiting_from(text);
    if (!waiting) return all_before_.clear();
    ranks.push_back(*waiting);
    all += text + "\n";
  }
  const bool is_unchanged = all == std::exchange(all_before_, all);
  const auto found = is_unchanged ? deadlock(ranks) : std::nullopt;
  if (found) store_->set(kFound, *found);
}

}  // namespace cohort
