// The keys of groups: the same on all ranks of a group, and different for each group, run and secret.
#include <map>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/toy_host/forwarding_store.hpp>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

/// Keys by group and rank, as the collective `keyed` leaves them.
using Seen = std::map<std::string, std::map<std::string, std::string>>;

/// Passes everything on and keeps what `keyed` has written.
class WatchedStore final : public ForwardingStore {
 public:
  WatchedStore(host::Store& store, Seen& seen, std::mutex& mutex)
      : ForwardingStore(store), seen_(seen), mutex_(mutex) {}
  void set(const std::string& key, std::string_view value) override {
    const std::size_t place = key.find("seen/");
    if (place != std::string::npos) {
      const std::lock_guard lock(mutex_);
      const std::string group = key.substr(0, key.rfind('/'));
      EXPECT_TRUE(seen_[group].emplace(key.substr(key.rfind('/') + 1), value).second) << key << " is set twice";
    }
    ForwardingStore::set(key, value);
  }

 private:
  Seen& seen_;
  std::mutex& mutex_;
};

Seen keys_of(const char* collective, std::optional<host::Key> secret) {
  Seen seen;
  std::mutex mutex;
  ToyJob job = ddp_job(4);
  job.num_nodes = 2;
  job.collective = host::parse_spec(collective, "test");
  job.secret = secret;
  job.open_store = [&](host::Store& shared, int) { return std::make_unique<WatchedStore>(shared, seen, mutex); };
  run_ranks(job, [](ToyRank& rank) { rank.runtime.barrier(); });
  return seen;
}

/// Returns the keys of groups of several ranks, each once.
std::multiset<std::string> check_groups(const Seen& seen) {
  std::multiset<std::string> keys;
  for (const auto& [group, by_rank] : seen) {
    const int size = std::stoi(group.substr(group.rfind('/') + 1));
    EXPECT_EQ(by_rank.size(), static_cast<std::size_t>(size)) << group;
    const std::string& key = by_rank.begin()->second;
    EXPECT_EQ(key.size(), size > 1 ? 32u : 0u) << group;
    for (const auto& [rank, found] : by_rank) EXPECT_EQ(found, key) << group << ", rank " << rank;
    if (size > 1) keys.insert(key);
  }
  const std::set<std::string> different(keys.begin(), keys.end());
  EXPECT_EQ(different.size(), keys.size()) << "two groups have one key";
  return keys;
}

host::Key secret_of(unsigned char first) {
  host::Key secret{};
  secret[0] = first;
  return secret;
}

// The world and its parts; hier opens groups of its own, and `keyed` has no splits.
TEST(GroupKeys, AreThoseOfAllRanksAndOfNoOtherGroup) {
  for (const auto& secret : {std::optional<host::Key>(), std::optional(secret_of(1))}) {
    EXPECT_GE(check_groups(keys_of("keyed", secret)).size(), 6u);
    EXPECT_GE(check_groups(keys_of("hier,node=keyed,across=keyed", secret)).size(), 3u);
  }
}

TEST(GroupKeys, FollowFromTheSecretAlone) {
  const Seen first = keys_of("keyed", secret_of(1));
  EXPECT_EQ(keys_of("keyed", secret_of(1)), first);
  for (const auto& other : {std::optional<host::Key>(), std::optional(secret_of(2))}) {
    auto keys = check_groups(first);
    keys.merge(check_groups(keys_of("keyed", other)));
    EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), keys.size());
  }
}

TEST(GroupKeys, OfJobsWithoutSecretAreDrawnAnew) {
  auto keys = check_groups(keys_of("keyed", std::nullopt));
  keys.merge(check_groups(keys_of("keyed", std::nullopt)));
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), keys.size());
}

}  // namespace
}  // namespace cohort::toy
