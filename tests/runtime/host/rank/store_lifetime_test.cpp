// The rank that serves the host's store keeps it until no rank needs it any more.
#include <atomic>
#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include <cohort/toy_host/forwarding_store.hpp>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using namespace std::chrono_literals;

/// The end of rank 0's store, and the last calls of the other ranks.
struct Ends {
  std::promise<void> end;
  std::shared_future<void> is_over{end.get_future()};
  std::atomic<int> early{0}, late{0};  // calls while the store is served, and afterwards
};

/// Stands for the served store, which ends with rank 0's object. Another rank's last call comes late.
class ServedStore final : public ForwardingStore {
 public:
  ServedStore(host::Store& store, int rank, Ends& ends) : ForwardingStore(store), rank_(rank), ends_(ends) {}
  ~ServedStore() override {
    if (rank_ == 0) ends_.end.set_value();
  }
  int64_t add(const std::string& key, int64_t amount) override {
    if (rank_ > 0 && key.find("/left/") != std::string::npos) {
      // A rank 0 that does not wait has ended long before this wait has.
      const bool is_served = ends_.is_over.wait_for(500ms) == std::future_status::timeout;
      ++(is_served ? ends_.early : ends_.late);
    }
    return ForwardingStore::add(key, amount);
  }

 private:
  int rank_;
  Ends& ends_;
};

TEST(RankStore, IsServedUntilAllRanksHaveLeft) {
  Ends ends;
  ToyJob job = ddp_job(3);
  job.open_store = [&](host::Store& shared, int rank) { return std::make_unique<ServedStore>(shared, rank, ends); };
  run_ranks(job, [](ToyRank& rank) { rank.runtime.barrier(); });
  EXPECT_EQ(ends.early, 2);
  EXPECT_EQ(ends.late, 0);
  EXPECT_EQ(ends.is_over.wait_for(0s), std::future_status::ready);
}

}  // namespace
}  // namespace cohort::toy
