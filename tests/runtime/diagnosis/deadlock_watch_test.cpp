#include <cohort/diagnosis/deadlock_watch.hpp>

#include <gtest/gtest.h>

#include <atomic>

#include <cohort/host/error.hpp>
#include <cohort/toy_host/toy_host.hpp>

namespace cohort {
namespace {

/// Records the calls that the ranks' stores have received.
struct Seen {
  std::atomic<bool> is_silent{false};  // a call waits for an answer
  std::atomic<int> limits{0}, given_up{0};
};

/// Answers nothing about deadlocks until it is given up.
class SilentStore final : public host::Store {
 public:
  SilentStore(host::Store& shared, Seen& seen) : shared_(shared), seen_(seen) {}
  void set(const std::string& key, std::string_view value) override { shared_.set(key, value); }
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override {
    return shared_.get(key, timeout);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    if (key.find("deadlock/") == std::string::npos) return shared_.try_get(key);
    seen_.is_silent = true;
    seen_.is_silent.notify_all();
    is_over_.wait(false);
    throw PeerFailed("no answer");
  }
  int64_t add(const std::string& key, int64_t amount) override { return shared_.add(key, amount); }
  void remove(const std::string& key) override { shared_.remove(key); }
  uint64_t count() override { return shared_.count(); }
  void limit_calls(std::chrono::milliseconds) override { ++seen_.limits; }
  void give_up() override {
    ++seen_.given_up;
    is_over_ = true;
    is_over_.notify_all();
  }

 private:
  host::Store& shared_;
  Seen& seen_;
  std::atomic<bool> is_over_{false};
};

TEST(DeadlockWatch, LeavesTheStoreAsItIsUntilItEnds) {
  Seen seen;
  toy::ToyJob job;
  job.plugin_dirs = {COHORT_TEST_PLUGINS};
  job.strategy = StrategySpec("ddp");
  job.collective = CollectiveSpec("shm");
  job.open_store = [&](host::Store& shared, int) { return std::make_unique<SilentStore>(shared, seen); };
  toy::run_ranks(job, [&](toy::ToyRank& rank) {
    DeadlockWatch watch(
        rank.runtime, [] { return true; }, std::chrono::milliseconds(50));
    if (rank.rank == 1) seen.is_silent.wait(false);  // rank 0 has waited for some time
    rank.runtime.barrier();
    if (rank.rank == 0) {
      EXPECT_EQ(seen.limits, 0);
      EXPECT_EQ(seen.given_up, 0);
      watch.stop();
      EXPECT_EQ(seen.given_up, 1);
    }
  });
}

}  // namespace
}  // namespace cohort
