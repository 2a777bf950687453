#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
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

// What each rank of an agreement ends with: "" or the text of its exception.
std::vector<std::string> agree_all(const std::vector<std::string>& texts, std::chrono::milliseconds timeout,
                                   size_t absent = ~size_t{0}) {
  toy::MemoryStore store;
  std::vector<std::string> results(texts.size());
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (rank == absent) continue;
    ranks.emplace_back([&, rank] {
      const Agreement agreement{store, static_cast<int>(rank), static_cast<int>(texts.size()), timeout,
                                "rank " + std::to_string(rank)};
      try {
        agree(agreement, "model", texts[rank], "ranks have different models");
      } catch (const Error& error) {
        results[rank] = std::to_string(static_cast<int>(error.code())) + " " + error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return results;
}

TEST(Agree, ReturnsWhereAllRanksSayTheSame) {
  EXPECT_THAT(agree_all({"a\nb\n", "a\nb\n", "a\nb\n"}, std::chrono::seconds(10)), Each(""));
}

TEST(Agree, GivesEveryRankTheSameTableOfTheLinesThatDiffer) {
  const auto results =
      agree_all({"same\nfc1 [2]\n", "same\nfc1 [3]\n", "same\nfc1 [2]\nextra\n"}, std::chrono::seconds(10));
  EXPECT_THAT(results, Each(results[0]));
  EXPECT_THAT(results[0], AllOf(HasSubstr("2 ranks have different models"), HasSubstr("rank 0: fc1 [2]"),
                                HasSubstr("rank 1: fc1 [3]"), HasSubstr("rank 2: extra"),
                                HasSubstr("rank 0: (nothing)"), Not(HasSubstr("same"))));
}

TEST(Agree, NamesTheRankThatDoesNotCome) {
  const auto results = agree_all({"a", "a", "a"}, std::chrono::milliseconds(200), 1);
  EXPECT_THAT(results[0], AllOf(HasSubstr("4 rank 0 waited"), HasSubstr("missing: rank 1")));
  EXPECT_THAT(results[2], HasSubstr("missing: rank 1"));
}

TEST(Agree, NamesRankZeroWhereItDoesNotCome) {
  const auto results = agree_all({"a", "a"}, std::chrono::milliseconds(100), 0);
  EXPECT_THAT(results[1], HasSubstr("heard nothing from rank 0"));
}

}  // namespace
}  // namespace cohort::host
