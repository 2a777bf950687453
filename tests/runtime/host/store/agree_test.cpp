#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/toy_host/memory_store.hpp>

namespace cohort::host {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// Rank 0 serves the store: once it has left the others get no answers, which take their time.
class ServedStore final : public Store {
 public:
  ServedStore(Store& store, int rank, const std::atomic<bool>& is_served)
      : store_(store), rank_(rank), is_served_(is_served) {}
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override {
    auto value = store_.get(key, timeout);
    if (rank_ != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (rank_ != 0 && !is_served_) throw PeerFailed("the store is gone");
    return value;
  }
  void set(const std::string& key, std::string_view value) override { store_.set(key, value); }
  std::optional<std::string> try_get(const std::string& key) override { return store_.try_get(key); }
  int64_t add(const std::string& key, int64_t amount) override { return store_.add(key, amount); }
  void remove(const std::string& key) override { store_.remove(key); }
  uint64_t count() override { return store_.count(); }

 private:
  Store& store_;
  int rank_;
  const std::atomic<bool>& is_served_;
};

// What each rank of an agreement ends with: "" or the text of its exception.
std::vector<std::string> agree_all(const std::vector<std::string>& texts, std::chrono::milliseconds timeout,
                                   size_t absent = ~size_t{0}) {
  toy::MemoryStore memory;
  std::atomic<bool> is_served{true};
  std::vector<std::string> results(texts.size());
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (rank == absent) continue;
    ranks.emplace_back([&, rank] {
      ServedStore store(memory, static_cast<int>(rank), is_served);
      const Agreement agreement{store, static_cast<int>(rank), static_cast<int>(texts.size()), timeout,
                                "rank " + std::to_string(rank)};
      try {
        agree(agreement, "model", texts[rank], "ranks have different models");
      } catch (const Error& error) {
        results[rank] = std::to_string(static_cast<int>(error.code())) + " " + error.what();
        if (rank == 0) is_served = false;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return results;
}

TEST(Agree, ReturnsWhereAllRanksSayTheSame) {
  EXPECT_THAT(agree_all({"a\nb\n", "a\nb\n", "a\nb\n"}, std::chrono::seconds(120)), Each(""));
}

TEST(Agree, GivesEveryRankTheSameTableOfTheLinesThatDiffer) {
  const auto results =
      agree_all({"same\nfc1 [2]\n", "same\nfc1 [3]\n", "same\nfc1 [2]\nextra\n"}, std::chrono::seconds(120));
  EXPECT_THAT(results, Each(results[0]));
  EXPECT_THAT(results[0], AllOf(HasSubstr("2 ranks have different models"), HasSubstr("rank 0: fc1 [2]"),
                                HasSubstr("rank 1: fc1 [3]"), HasSubstr("rank 2: extra"),
                                HasSubstr("rank 0: (nothing)"), Not(HasSubstr("same"))));
}

TEST(Agree, NamesTheRankThatDoesNotComeOnAllOthers) {
  // The others come within this time, however loaded the machine.
  const auto results = agree_all({"a", "a", "a"}, std::chrono::seconds(1), 1);
  EXPECT_THAT(results[0], AllOf(HasSubstr("4 rank 0 waited"), HasSubstr("missing: rank 1")));
  EXPECT_THAT(results[2], HasSubstr("missing: rank 1"));
}

TEST(Agree, NamesRankZeroWhereItDoesNotCome) {
  const auto results = agree_all({"a", "a"}, std::chrono::milliseconds(100), 0);
  EXPECT_THAT(results[1], HasSubstr("heard nothing from rank 0"));
}

}  // namespace
}  // namespace cohort::host
