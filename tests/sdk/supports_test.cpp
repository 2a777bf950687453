#include <cohort/sdk/supports.hpp>

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

struct Bare : sdk::Strategy<Bare> {};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_CLIPPING) throw std::runtime_error("no option of that name");
  const bool fits = query.value() == 3 && query.variant() == "fancy" && query.below_spec() == "ddp" &&
                    query.options().integer("bits") == 8 && query.world_size() == 4 && query.num_nodes() == 2 &&
                    query.local_world_size() == 1 && query.replicas() == 5;
  if (query.use() == COHORT_USE_REPLICAS && fits) return sdk::no("it has one buffer", "choose --strategy=ddp");
  return sdk::yes_to_known(query);
}

constexpr cohort_component kComponent = sdk::strategy<Bare>("nothing", "does nothing").supports<supports>();

cohort_query answer(int32_t use) {
  static const cohort_key_value options[] = {{"bits", "8"}};
  cohort_query query{sizeof query, use, 3, 4, 2, 1, 5, "fancy", options, 1, "ddp", 0, 0, nullptr, nullptr};
  kComponent.supports(nullptr, &query);
  return query;
}

TEST(SdkSupports, PutsTheAnswerIntoTheQuery) {
  EXPECT_EQ(answer(COHORT_USE_NODES).answer, COHORT_ANSWER_YES);
  EXPECT_EQ(answer(COHORT_USE_BY_HAND).answer, COHORT_ANSWER_YES);
  // Of these the host's default is no, or a component has to say it for itself.
  for (const int32_t use : {COHORT_USE_UNNAMED, COHORT_USE_CLOSURES, COHORT_USE_PRECISION, COHORT_USE_EQUAL_RANKS,
                            COHORT_USE_ELASTIC, COHORT_USE_PARTS, COHORT_USE_PAGES, 1000, 0, -1}) {
    EXPECT_EQ(answer(use).answer, COHORT_ANSWER_UNKNOWN) << use;
  }
  const cohort_query refused = answer(COHORT_USE_REPLICAS);
  EXPECT_EQ(refused.answer, COHORT_ANSWER_NO);
  EXPECT_STREQ(refused.why, "it has one buffer");
  EXPECT_STREQ(refused.fix, "choose --strategy=ddp");
}

TEST(SdkSupports, RefusesAUseIfTheFunctionThrows) {
  const cohort_query refused = answer(COHORT_USE_CLIPPING);
  EXPECT_EQ(refused.answer, COHORT_ANSWER_NO);
  EXPECT_STREQ(refused.why, "its supports() throws an exception");
}

TEST(SdkSupports, IsNullUnlessItIsGiven) {
  constexpr cohort_component silent = sdk::strategy<Bare>("silent", "does nothing");
  EXPECT_EQ(silent.supports, nullptr);
}

}  // namespace
