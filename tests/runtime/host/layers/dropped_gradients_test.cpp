// What layers want and drop in plan_buckets, and whose reduce_bucket is called afterwards. The stack: base <- a <- b <-
// c.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/host_object.hpp>
#include <cohort/host/strategy_layers.hpp>

namespace cohort::host {
namespace {

using Calls = std::vector<std::string>;

/// What the slots work on; layers find it at the bottom of the stack.
struct Plans {
  StrategyLayers* layers = nullptr;
  std::map<std::string, std::vector<std::string>> by_layer;  // what each does in plan_buckets, in this order
  Calls reduced;
};

Plans& plans_of(cohort_strategy* s) {
  while (s->below) s = s->below;
  return *static_cast<Plans*>(s->data);
}

cohort_status plan_layer(cohort_strategy* s, cohort_bucket_plan* plan) noexcept {
  Plans& plans = plans_of(s);
  for (const std::string& action : plans.by_layer[HostObject::component_of(s->host)]) {
    if (action == "below") s->below->vt->plan_buckets(s->below, plan);
    if (action == "want") plans.layers->want_gradients(s->host);
    if (action == "drop") plans.layers->drop_gradients(s->host);
  }
  return COHORT_OK;
}

cohort_status reduce_layer(cohort_strategy* s, const cohort_step* step, const cohort_bucket* bucket) noexcept {
  plans_of(s).reduced.push_back(HostObject::component_of(s->host));
  return s->below ? s->below->vt->reduce_bucket(s->below, step, bucket) : cohort_status{COHORT_OK};
}

cohort_strategy_vt table_of_layer() {
  cohort_strategy_vt table{};
  table.struct_size = sizeof table;
  table.plan_buckets = plan_layer;
  table.reduce_bucket = reduce_layer;
  return table;
}

class DroppedGradients : public ::testing::Test {
 protected:
  /// Plans with what a, b and c do in their plan_buckets. Returns "wanted: " or "not wanted: " and the layers whose
  /// reduce_bucket is called for a bucket, topmost first.
  std::string planned(const Calls& a, const Calls& b, const Calls& c) {
    plans_.by_layer = {{"base", {"want"}}, {"a", a}, {"b", b}, {"c", c}};
    plans_.reduced.clear();
    cohort_bucket_plan plan{sizeof plan, 0, 0, 0, 1};
    EXPECT_EQ(layers_.plan_buckets(plan), COHORT_OK);
    EXPECT_EQ(layers_.top()->vt->reduce_bucket(layers_.top(), nullptr, nullptr), COHORT_OK);
    std::string text = layers_.want_gradients() ? "wanted:" : "not wanted:";
    for (const std::string& name : plans_.reduced) text += " " + name;
    return text;
  }

 private:
  static std::vector<LayerBlueprint> blueprints(const cohort_strategy_vt& table) {
    std::vector<LayerBlueprint> layers;
    for (const char* name : {"a", "b", "c"}) layers.push_back({name, &table, {}, ""});
    return layers;
  }

  Log log_{LogSettings{}};
  HostObject host_{log_};
  const cohort_strategy_vt table_ = table_of_layer();
  Plans plans_;
  StrategyLayers layers_{blueprints(table_), table_, &plans_, host_};

 public:
  DroppedGradients() { plans_.layers = &layers_; }
};

const Calls kBelow{"below"};

TEST_F(DroppedGradients, AreNoneUnlessALayerDropsThem) {
  EXPECT_EQ(planned(kBelow, kBelow, kBelow), "wanted: c b a base");
  EXPECT_EQ(planned(kBelow, {"below", "want"}, {"want", "below"}), "wanted: c b a base");
  EXPECT_EQ(planned({}, kBelow, kBelow), "not wanted: c b a base") << "base is not asked";
}

TEST_F(DroppedGradients, AreNeededByNobodyBelow) {
  EXPECT_EQ(planned(kBelow, kBelow, {"below", "drop"}), "not wanted:");
  EXPECT_EQ(planned({"below", "want"}, {"below", "want"}, {"below", "drop"}), "not wanted:");
  EXPECT_EQ(planned(kBelow, {"drop", "below"}, kBelow), "not wanted: c") << "the order within a layer does not count";
}

TEST_F(DroppedGradients, AreSeenByLayersAboveThatWantThem) {
  EXPECT_EQ(planned(kBelow, {"below", "drop"}, {"below", "want"}), "wanted: c");
  EXPECT_EQ(planned({"below", "drop"}, kBelow, {"below", "want"}), "wanted: c b");
  EXPECT_EQ(planned({"below", "drop"}, {"below", "want"}, kBelow), "wanted: c b");
}

TEST_F(DroppedGradients, AreSeenByLayersThatWantThemEarlier) {
  EXPECT_EQ(planned(kBelow, {"below", "drop"}, {"want", "below"}), "wanted: c");
}

TEST_F(DroppedGradients, AreSeenByTheDropperThatWantsAgain) {
  EXPECT_EQ(planned(kBelow, {"below", "drop", "want"}, kBelow), "wanted: c b");
  EXPECT_EQ(planned({"below", "want"}, {"drop", "below", "want"}, kBelow), "wanted: c b") << "and a is not called";
  EXPECT_EQ(planned(kBelow, {"below", "want", "drop"}, kBelow), "not wanted: c") << "the last word counts";
}

TEST_F(DroppedGradients, AreThoseOfTheTopmostDropper) {
  EXPECT_EQ(planned({"below", "drop", "want"}, {"below", "want"}, {"below", "drop"}), "not wanted:");
  EXPECT_EQ(planned({"below", "drop", "want"}, {"below", "drop", "want"}, kBelow), "wanted: c b");
}

TEST_F(DroppedGradients, AreAveragedAgainWithoutADrop) {
  EXPECT_EQ(planned(kBelow, {"below", "drop"}, {"below", "want"}), "wanted: c");
  EXPECT_EQ(planned(kBelow, kBelow, kBelow), "wanted: c b a base");
  EXPECT_EQ(planned(kBelow, kBelow, {"below", "drop"}), "not wanted:");
  EXPECT_EQ(planned({"below", "drop"}, kBelow, {"below", "want"}), "wanted: c b");
}

}  // namespace
}  // namespace cohort::host
