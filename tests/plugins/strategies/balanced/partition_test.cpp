// The cut of a chain, compared with all cuts of small random ones.
#include "partition.hpp"

#include <algorithm>
#include <random>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::balanced {
namespace {

using testing::ElementsAre;
using testing::Optional;

std::size_t end_of(const Chain& chain, const Cut& cut, std::size_t part) {
  return part + 1 < cut.size() ? cut[part + 1] : chain.size();
}

/// The rank of a cut among others: the time of its slowest part, then the bytes over its borders.
using Worth = std::tuple<uint64_t, uint64_t>;

Worth worth_of(const Chain& chain, const Cut& cut) {
  uint64_t slowest = 0, crossing = 0;
  for (std::size_t part = 0; part < cut.size(); ++part) {
    slowest = std::max(slowest, chain.nanoseconds(cut[part], end_of(chain, cut, part)));
    crossing += chain.crossing(cut[part]);
  }
  return {slowest, crossing};
}

bool is_allowed(const Chain& chain, const std::vector<Room>& rooms, const Cut& cut) {
  for (std::size_t part = 0; part < cut.size(); ++part) {
    if (!chain.can_begin(cut[part]) || !chain.fits(cut[part], end_of(chain, cut, part), rooms[part])) return false;
  }
  return true;
}

/// Returns every cut into non-empty parts.
std::vector<Cut> all_cuts(std::size_t units, std::size_t parts) {
  std::vector<Cut> cuts;
  for (uint32_t borders = 0; borders < 1u << (units - 1); ++borders) {
    Cut cut{0};
    for (uint32_t unit = 1; unit < units; ++unit) {
      if (borders & (1u << (unit - 1))) cut.push_back(unit);
    }
    if (cut.size() == parts) cuts.push_back(cut);
  }
  return cuts;
}

struct Problem {
  Chain chain;
  std::vector<Room> rooms;
};

/// Few different figures, so that many cuts are equally fast.
Problem random_problem(std::mt19937& random) {
  const auto number = [&](uint32_t most) { return std::uniform_int_distribution<uint32_t>(0, most)(random); };
  std::vector<Unit> units(1 + number(11));
  for (Unit& unit : units) {
    unit = {"", number(6), number(20), number(10), number(4), number(8), number(4) == 0};
  }
  std::vector<Room> rooms(1 + number(4));
  const bool is_limited = number(2) > 0;
  for (Room& room : rooms) room = {is_limited ? 20 + number(120) : 0, 1 + number(3)};
  return {Chain(std::move(units)), std::move(rooms)};
}

TEST(Chain, AddsUpTheBytesOfAPart) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const auto [chain, rooms] = random_problem(random);
    for (std::size_t first = 0; first < chain.size(); ++first) {
      for (std::size_t end = first + 1; end <= chain.size(); ++end) {
        uint64_t weights = 0, kept = first == 0 ? 0 : chain[first - 1].crossing_bytes, transient = 0;
        for (std::size_t one = first; one < end; ++one) {
          weights += chain[one].weight_bytes, kept += chain[one].kept_bytes;
          transient = std::max(transient, chain[one].transient_bytes);
        }
        const uint64_t gradient = end < chain.size() ? chain[end - 1].crossing_bytes : 0;
        ASSERT_EQ(chain.bytes(first, end, rooms[0]), weights + rooms[0].in_flight * kept + gradient + transient);
      }
    }
  }
}

TEST(Partition, EqualsTheBestOfAllCuts) {
  std::mt19937 random(1);
  int found = 0, impossible = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto [chain, rooms] = random_problem(random);
    std::optional<Worth> best;
    for (const Cut& cut : all_cuts(chain.size(), rooms.size())) {
      if (is_allowed(chain, rooms, cut)) best = std::min(best.value_or(worth_of(chain, cut)), worth_of(chain, cut));
    }
    const std::optional<Cut> cut = fastest_cut(chain, rooms);
    ASSERT_EQ(cut.has_value(), best.has_value()) << "chain " << i;
    ++(cut ? found : impossible);
    if (!cut) continue;
    ASSERT_EQ(cut->size(), rooms.size());
    ASSERT_TRUE(std::ranges::is_sorted(*cut, std::less_equal()) && cut->front() == 0 && cut->back() < chain.size());
    ASSERT_TRUE(is_allowed(chain, rooms, *cut)) << "chain " << i;
    ASSERT_EQ(worth_of(chain, *cut), *best) << "chain " << i;
  }
  EXPECT_GT(found, 300);
  EXPECT_GT(impossible, 100);
}

TEST(Partition, FitsIntoTheSmallestLimitAndNoSmallerOne) {
  std::mt19937 random(2);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    auto [chain, rooms] = random_problem(random);
    const auto limit = smallest_limit(chain, rooms);
    for (Room& room : rooms) room.limit = limit.value_or(0);
    ASSERT_EQ(fastest_cut(chain, rooms).has_value(), limit.has_value()) << "chain " << i;
    if (limit.value_or(0) < 2) continue;
    for (Room& room : rooms) room.limit = *limit - 1;
    ASSERT_FALSE(fastest_cut(chain, rooms)) << "chain " << i;
    ++found;
  }
  EXPECT_GT(found, 300);
}

Unit unit(uint64_t nanoseconds, uint64_t crossing = 0, bool stays = false) {
  return {"", nanoseconds, 0, 0, crossing, 0, stays};
}

const std::vector<Room> kTwo(2);

TEST(Partition, TakesTheNarrowestOfEquallyFastBorders) {
  EXPECT_THAT(fastest_cut(Chain({unit(5, 9), unit(0, 1), unit(0, 5), unit(5)}), kTwo), Optional(ElementsAre(0u, 2u)));
}

TEST(Partition, BeginsNoPartAtAUnitThatStays) {
  EXPECT_THAT(fastest_cut(Chain({unit(1), unit(1), unit(1, 0, true), unit(1)}), kTwo), Optional(ElementsAre(0u, 1u)));
  EXPECT_FALSE(fastest_cut(Chain({unit(1), unit(1, 0, true)}), kTwo));
  EXPECT_THAT(fastest_cut(Chain({unit(1, 0, true), unit(1)}), kTwo), Optional(ElementsAre(0u, 1u)))
      << "the model begins somewhere";
}

TEST(Partition, GivesAPartWithMorePiecesLess) {
  std::vector<Unit> units(6);
  for (Unit& each : units) each.nanoseconds = each.kept_bytes = 1;
  EXPECT_THAT(fastest_cut(Chain(units), {{6, 2}, {6, 1}}), Optional(ElementsAre(0u, 3u)));
  EXPECT_THAT(fastest_cut(Chain(units), {{5, 2}, {5, 1}}), Optional(ElementsAre(0u, 2u)));
  EXPECT_FALSE(fastest_cut(Chain(units), {{3, 2}, {4, 1}}));
}

TEST(Partition, CutsAThousandUnits) {
  std::vector<Unit> units;
  for (uint32_t i = 0; i < 1000; ++i) units.push_back(unit(1 + i % 7, i % 5));
  const Chain chain(units);
  const auto cut = fastest_cut(chain, std::vector<Room>(8));
  ASSERT_TRUE(cut);
  EXPECT_LE(std::get<0>(worth_of(chain, *cut)), chain.nanoseconds(0, 1000) / 8 + 7);
}

TEST(AChain, CountsWholeNanoseconds) {
  const cohort_unit units[]{{"a", 0.1, 0, 0, 0, 0, 0, 0}, {"b", 0.2, 0, 0, 0, 0, 0, 0}, {"c", -1, 0, 0, 0, 0, 0, 0}};
  const Chain chain(units, 3);
  EXPECT_EQ(chain.nanoseconds(0, 2), 300'000'000u);
  EXPECT_EQ(chain[2].nanoseconds, 0u);
}

}  // namespace
}  // namespace cohort::balanced
