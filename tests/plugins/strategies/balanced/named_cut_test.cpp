#include "named_cut.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/sdk/error.hpp>

namespace cohort::balanced {
namespace {

using testing::ElementsAre;

Chain model(bool attention_stays = false) {
  std::vector<Unit> units;
  for (const char* name : {"embed", "blocks.1.norm", "blocks.1.mlp", "blocks.10.norm", "blocks.10.mlp", "head"}) {
    units.push_back({.name = name});
  }
  units[3].stays = attention_stays;
  return Chain(std::move(units));
}

std::string refusal(std::string_view names, std::size_t parts, const Chain& chain = model()) {
  try {
    named_cut(chain, names, parts);
  } catch (const sdk::Error& error) {
    EXPECT_EQ(error.status(), COHORT_INVALID_ARGUMENT);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ANamedCut, BeginsPartsAtUnitsAndModules) {
  EXPECT_THAT(named_cut(model(), "head", 2), ElementsAre(0u, 5u));
  EXPECT_THAT(named_cut(model(), "blocks.1+blocks.10.mlp", 3), ElementsAre(0u, 1u, 4u));
  EXPECT_THAT(named_cut(model(), "blocks.10", 2), ElementsAre(0u, 3u)) << "blocks.1 is another module";
  EXPECT_THAT(named_cut(model(), "blocks", 2), ElementsAre(0u, 1u));
}

TEST(ANamedCut, TakesNamesInAnyOrder) {
  EXPECT_THAT(named_cut(model(), "head+blocks.1", 3), ElementsAre(0u, 1u, 5u));
}

TEST(ANamedCut, RefusesAnotherNumberOfNames) {
  EXPECT_EQ(refusal("head", 3),
            "3 parts need 2 names, joined by '+', of the modules that begin the later ones, but 'head' has 1; name "
            "as many, or leave cut out");
  EXPECT_THAT(refusal("head+blocks.1", 2), testing::HasSubstr("'head+blocks.1' has 2"));
}

TEST(ANamedCut, RefusesAnUnknownNameWithTheNearest) {
  EXPECT_EQ(refusal("blocs.10", 2),
            "the model has no unit 'blocs.10', and none under it; the nearest is 'blocks.10'; its units are embed, "
            "blocks.1.norm, blocks.1.mlp, blocks.10.norm, blocks.10.mlp, head");
  EXPECT_THAT(refusal("haed", 2), testing::HasSubstr("the nearest is 'head'"));
  EXPECT_THAT(refusal("head+", 3), testing::HasSubstr("no unit ''"));
}

TEST(ANamedCut, ShowsTheFirstUnitsOfALongModel) {
  std::vector<Unit> units;
  for (int i = 0; i < 40; ++i) units.push_back({.name = "u" + std::to_string(i)});
  EXPECT_THAT(refusal("x", 2, Chain(std::move(units))), testing::EndsWith("u10, u11, ... u39"));
}

TEST(ANamedCut, RefusesPartsThatWouldBeEmpty) {
  EXPECT_EQ(refusal("embed", 2),
            "'embed' is where the model begins, so that the first part would be empty; name a later unit");
  EXPECT_EQ(refusal("blocks.1+blocks.1.norm", 3),
            "two parts would begin at 'blocks.1.norm'; name another unit than 'blocks.1.norm'");
}

TEST(ANamedCut, RefusesAUnitThatStays) {
  EXPECT_EQ(refusal("blocks.10", 2, model(true)),
            "no part can begin at 'blocks.10', because 'blocks.10.norm' stays with 'blocks.1.mlp'; the log says why; "
            "name another unit");
}

}  // namespace
}  // namespace cohort::balanced
