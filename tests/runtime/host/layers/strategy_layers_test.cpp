// The stack: base <- a <- b <- free, with every call written down.
#include <cohort/host/strategy_layers.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>

namespace cohort::host {
namespace {

using ::testing::ElementsAre;
using Calls = std::vector<std::string>;

// What base's slots write to; layers find it at the bottom of the stack.
struct Recorder {
  Calls calls;
  const void* seen_argument = nullptr;
};

Recorder& recorder_of(cohort_strategy* s) {
  while (s->below) s = s->below;
  return *static_cast<Recorder*>(s->data);
}

cohort_status record(cohort_strategy* s, std::string call) {
  recorder_of(s).calls.push_back(std::move(call));
  return COHORT_OK;
}

// A base with every slot filled, each answering with a status of its own.
cohort_strategy_vt recording_base() {
  cohort_strategy_vt base{};
  base.struct_size = sizeof(base);
  base.plan = [](cohort_strategy* s, const cohort_job* job, cohort_plan*) noexcept -> cohort_status {
    recorder_of(s).seen_argument = job;
    record(s, "base.plan");
    return 101;
  };
  base.init_dist_connection = [](cohort_strategy* s, cohort_dist_args*) noexcept -> cohort_status {
    record(s, "base.init_dist_connection");
    return 102;
  };
  base.configure_model = [](cohort_strategy* s) noexcept -> cohort_status {
    record(s, "base.configure_model");
    return 103;
  };
  base.begin_step = [](cohort_strategy* s, const cohort_step*) noexcept -> cohort_status {
    record(s, "base.begin_step");
    // The overridable step, as code of base calls it.
    s->top->vt->layout_ready(s->top, COHORT_LAYOUT_AGAIN);
    return 104;
  };
  base.plan_buckets = [](cohort_strategy* s, cohort_bucket_plan* plan) noexcept -> cohort_status {
    record(s, "base.plan_buckets");
    if (plan) plan->size = 25;
    return 112;
  };
  base.reduce_bucket = [](cohort_strategy* s, const cohort_step*, const cohort_bucket*) noexcept -> cohort_status {
    record(s, "base.reduce_bucket");
    return 105;
  };
  base.end_backward = [](cohort_strategy* s, const cohort_step*) noexcept -> cohort_status {
    record(s, "base.end_backward");
    return 106;
  };
  base.clip_gradients = [](cohort_strategy* s, const cohort_step*, const cohort_clip_args*) noexcept -> cohort_status {
    record(s, "base.clip_gradients");
    return 113;
  };
  base.optimizer_step = [](cohort_strategy* s, const cohort_step*) noexcept -> cohort_status {
    record(s, "base.optimizer_step");
    return 107;
  };
  base.end_step = [](cohort_strategy* s, const cohort_step*) noexcept -> cohort_status {
    record(s, "base.end_step");
    return 108;
  };
  base.pause = [](cohort_strategy* s, int32_t reason) noexcept -> cohort_status {
    record(s, "base.pause " + std::to_string(reason));
    return 109;
  };
  base.layout_ready = [](cohort_strategy* s, int32_t reason) noexcept -> cohort_status {
    record(s, "base.layout_ready " + std::to_string(reason));
    return 110;
  };
  base.shutdown = [](cohort_strategy* s) noexcept -> cohort_status {
    record(s, "base.shutdown");
    return 111;
  };
  base.get_extension = [](cohort_strategy* s, const char* id) noexcept -> const void* {
    record(s, std::string("base.get_extension ") + id);
    return id;
  };
  return base;
}

// Layer a overrides end_step and layout_ready, b end_step and reduce_bucket, free end_step; each calls below.
cohort_strategy_vt layer_a() {
  cohort_strategy_vt table{};
  table.struct_size = sizeof(table);
  table.create = [](cohort_strategy* s, const char* variant, const cohort_key_value* options, uint64_t n) noexcept {
    return record(s, std::string("a.create ") + variant + " " + (n ? options[0].value : "-"));
  };
  table.destroy = [](cohort_strategy* s) noexcept { record(s, "a.destroy"); };
  table.end_step = [](cohort_strategy* s, const cohort_step* step) noexcept {
    record(s, "a.end_step");
    return s->below->vt->end_step(s->below, step);
  };
  table.layout_ready = [](cohort_strategy* s, int32_t) noexcept { return record(s, "a.layout_ready"); };
  return table;
}

cohort_strategy_vt layer_b() {
  cohort_strategy_vt table{};
  table.struct_size = sizeof(table);
  table.create = [](cohort_strategy* s, const char* variant, const cohort_key_value*, uint64_t) noexcept {
    return record(s, std::string("b.create ") + variant);
  };
  table.destroy = [](cohort_strategy* s) noexcept { record(s, "b.destroy"); };
  table.reduce_bucket = [](cohort_strategy* s, const cohort_step*, const cohort_bucket*) noexcept {
    return record(s, "b.reduce_bucket");
  };
  table.end_step = [](cohort_strategy* s, const cohort_step* step) noexcept {
    record(s, "b.end_step");
    return s->below->vt->end_step(s->below, step);
  };
  return table;
}

cohort_strategy_vt layer_free() {
  cohort_strategy_vt table{};
  table.struct_size = sizeof(table);
  table.destroy = [](cohort_strategy* s) noexcept { record(s, "free.destroy"); };
  table.end_step = [](cohort_strategy* s, const cohort_step* step) noexcept {
    record(s, "free.end_step");
    return s->below->vt->end_step(s->below, step);
  };
  return table;
}

struct StrategyLayersTest : ::testing::Test {
  Log log{LogSettings{}};
  HostObject host{log};
  Recorder recorder;
  cohort_strategy_vt a = layer_a(), b = layer_b(), free = layer_free();

  std::vector<LayerBlueprint> blueprints() {
    std::vector<std::pair<std::string, std::string>> options{{"width", "7"}};
    std::vector<LayerBlueprint> layers;
    layers.push_back({"a", &a, CheckedOptions(std::move(options)), "fast"});
    layers.push_back({"b", &b, CheckedOptions(), "fast"});
    layers.push_back({"free", &free, {}, "fast"});
    return layers;
  }
  StrategyLayers stack() { return {blueprints(), recording_base(), &recorder, host}; }
  Calls calls() { return std::exchange(recorder.calls, {}); }
};

TEST_F(StrategyLayersTest, AreCreatedLowestFirstAndDestroyedInReverse) {
  {
    const StrategyLayers layers = stack();
    EXPECT_THAT(layers.names(), ElementsAre("base", "a", "b", "free"));
    EXPECT_THAT(calls(), ElementsAre("a.create fast 7", "b.create fast"));
  }
  EXPECT_THAT(calls(), ElementsAre("free.destroy", "b.destroy", "a.destroy"));
}

TEST_F(StrategyLayersTest, AreLinkedBySuperAndTop) {
  const StrategyLayers layers = stack();
  std::size_t height = 0;
  for (cohort_strategy* s = layers.top(); s; s = s->below, ++height) EXPECT_EQ(s->top, layers.top());
  EXPECT_EQ(height, 4u);
}

TEST_F(StrategyLayersTest, HaveAHostForEachLayer) {
  const StrategyLayers layers = stack();
  std::vector<std::string> components;
  for (cohort_strategy* s = layers.top(); s; s = s->below) {
    EXPECT_EQ(&HostObject::of(s->host), &host);
    components.push_back(HostObject::component_of(s->host));
  }
  EXPECT_THAT(components, ElementsAre("free", "b", "a", "base"));
}

// Each layer overwrites what the one below has left, and the upper one clears its flags.
TEST_F(StrategyLayersTest, CombineFlagsAndAlignmentsOfALayout) {
  a.plan_buckets = [](cohort_strategy* s, cohort_bucket_plan* plan) noexcept {
    const cohort_status status = s->below->vt->plan_buckets(s->below, plan);
    *plan = {sizeof *plan, COHORT_PLAN_KEEP_ORDER, 0, 0, 6};
    return status;
  };
  b.plan_buckets = [](cohort_strategy* s, cohort_bucket_plan* plan) noexcept {
    const cohort_status status = s->below->vt->plan_buckets(s->below, plan);
    *plan = {sizeof *plan, COHORT_PLAN_KEEP_SIZE, 7, 0, 4};
    return status;
  };
  StrategyLayers layers = stack();
  for (int layout = 0; layout < 2; ++layout) {
    cohort_bucket_plan plan{sizeof plan, 0, 0, 0, 1};
    EXPECT_EQ(layers.plan_buckets(plan), 112);
    EXPECT_EQ(plan.flags, COHORT_PLAN_KEEP_ORDER | COHORT_PLAN_KEEP_SIZE);
    EXPECT_EQ(plan.alignment, 12u);
    EXPECT_EQ(plan.size, 7u);
  }
}

TEST_F(StrategyLayersTest, CallSuperDownTheStack) {
  const StrategyLayers layers = stack();
  calls();
  EXPECT_EQ(layers.top()->vt->end_step(layers.top(), nullptr), 108);
  EXPECT_THAT(calls(), ElementsAre("free.end_step", "b.end_step", "a.end_step", "base.end_step"));
}

TEST_F(StrategyLayersTest, StopAtALayerThatDoesNotCallSuper) {
  const StrategyLayers layers = stack();
  calls();
  EXPECT_EQ(layers.top()->vt->reduce_bucket(layers.top(), nullptr, nullptr), COHORT_OK);
  EXPECT_THAT(calls(), ElementsAre("b.reduce_bucket"));
}

TEST_F(StrategyLayersTest, LetBaseReachAnOverrideThroughTop) {
  const StrategyLayers layers = stack();
  calls();
  layers.top()->vt->begin_step(layers.top(), nullptr);
  EXPECT_THAT(calls(), ElementsAre("base.begin_step", "a.layout_ready"));
}

TEST_F(StrategyLayersTest, ForwardEveryNullSlotWithItsArgumentsAndResult) {
  cohort_strategy_vt empty{};
  empty.struct_size = sizeof(empty);
  std::vector<LayerBlueprint> two;
  two.push_back({"lower", &empty, {}, ""});
  two.push_back({"upper", &empty, {}, ""});
  const StrategyLayers layers(std::move(two), recording_base(), &recorder, host);
  cohort_strategy* s = layers.top();
  const cohort_job job{};
  const char* const id = "id";
  EXPECT_EQ(s->struct_size, sizeof *s);
  EXPECT_EQ(s->reserved0, 0u);
  EXPECT_EQ(s->vt->plan(s, &job, nullptr), 101);
  EXPECT_EQ(recorder.seen_argument, &job);
  EXPECT_EQ(s->vt->init_dist_connection(s, nullptr), 102);
  EXPECT_EQ(s->vt->configure_model(s), 103);
  EXPECT_EQ(s->vt->begin_step(s, nullptr), 104);
  EXPECT_EQ(s->vt->plan_buckets(s, nullptr), 112);
  EXPECT_EQ(s->vt->layout_ready(s, 2), 110);
  EXPECT_EQ(s->vt->reduce_bucket(s, nullptr, nullptr), 105);
  EXPECT_EQ(s->vt->end_backward(s, nullptr), 106);
  EXPECT_EQ(s->vt->clip_gradients(s, nullptr, nullptr), 113);
  EXPECT_EQ(s->vt->optimizer_step(s, nullptr), 107);
  EXPECT_EQ(s->vt->end_step(s, nullptr), 108);
  EXPECT_EQ(s->vt->pause(s, 3), 109);
  EXPECT_EQ(s->vt->shutdown(s), 111);
  EXPECT_EQ(s->vt->get_extension(s, id), id);
  EXPECT_THAT(calls(),
              ElementsAre("base.plan", "base.init_dist_connection", "base.configure_model", "base.begin_step",
                          "base.layout_ready 3", "base.plan_buckets", "base.layout_ready 2", "base.reduce_bucket",
                          "base.end_backward", "base.clip_gradients", "base.optimizer_step", "base.end_step",
                          "base.pause 3", "base.shutdown", "base.get_extension id"));
}

TEST_F(StrategyLayersTest, ForwardToTheNextFilledSlot) {
  cohort_strategy_vt empty{};
  empty.struct_size = sizeof(empty);
  std::vector<LayerBlueprint> five;
  for (const char* name : {"lowest", "lower"}) five.push_back({name, &empty, {}, ""});
  five.push_back({"a", &a, {}, ""});
  for (const char* name : {"upper", "uppermost"}) five.push_back({name, &empty, {}, ""});
  const StrategyLayers layers(std::move(five), recording_base(), &recorder, host);
  calls();
  EXPECT_EQ(layers.top()->vt->end_step(layers.top(), nullptr), 108);
  EXPECT_THAT(calls(), ElementsAre("a.end_step", "base.end_step"));
}

TEST_F(StrategyLayersTest, ReadATableOnlyAsFarAsItSays) {
  // Slots behind the end hold what would crash if it were called.
  a.struct_size = COHORT_END(cohort_strategy_vt, end_step);
  std::memset(&a.pause, 0x5a, sizeof(a) - offsetof(cohort_strategy_vt, pause));
  const StrategyLayers layers = stack();
  calls();
  cohort_strategy* s = layers.top();
  EXPECT_EQ(s->vt->struct_size, sizeof(cohort_strategy_vt));
  EXPECT_EQ(s->vt->pause(s, 1), 109);
  EXPECT_EQ(s->vt->shutdown(s), 111);
  EXPECT_EQ(s->vt->end_step(s, nullptr), 108);
  EXPECT_THAT(calls(), ElementsAre("base.pause 1", "base.shutdown", "free.end_step", "b.end_step", "a.end_step",
                                   "base.end_step"));
}

TEST_F(StrategyLayersTest, AcceptATableThatIsLongerThanTheHostsOwn) {
  struct Longer {
    cohort_strategy_vt known = layer_a();
    void* newer_slot = nullptr;
  } longer;
  longer.known.struct_size = sizeof(longer);
  std::vector<LayerBlueprint> one;
  one.push_back({"a", &longer.known, {}, ""});
  const StrategyLayers layers(std::move(one), recording_base(), &recorder, host);
  EXPECT_EQ(layers.top()->vt->struct_size, sizeof(cohort_strategy_vt));
  EXPECT_EQ(layers.top()->vt->end_step(layers.top(), nullptr), 108);
}

TEST_F(StrategyLayersTest, ThrowThePluginsMessageAndDestroyThoseBefore) {
  b.create = [](cohort_strategy* s, const char*, const cohort_key_value*, uint64_t) noexcept {
    return s->host->fail(s->host, COHORT_INVALID_ARGUMENT, "width must be even");
  };
  try {
    stack();
    FAIL() << "not thrown";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "strategy 'b', create: width must be even");
  }
  EXPECT_THAT(calls(), ElementsAre("a.create fast 7", "a.destroy"));
}

TEST_F(StrategyLayersTest, AreBaseAloneWithoutBlueprints) {
  const StrategyLayers layers({}, recording_base(), &recorder, host);
  EXPECT_THAT(layers.names(), ElementsAre("base"));
  EXPECT_EQ(layers.top()->below, nullptr);
  EXPECT_EQ(layers.top()->vt->shutdown(layers.top()), 111);
}

TEST_F(StrategyLayersTest, GiveBaseItsOwnCreateAndDestroy) {
  cohort_strategy_vt base = recording_base();
  base.create = [](cohort_strategy* s, const char* variant, const cohort_key_value*, uint64_t n) noexcept {
    return record(s, std::string("base.create ") + variant + " " + std::to_string(n));
  };
  base.destroy = [](cohort_strategy* s) noexcept { record(s, "base.destroy"); };
  { const StrategyLayers layers(blueprints(), base, &recorder, host); }
  EXPECT_EQ(recorder.calls.front(), "base.create fast 0");
  EXPECT_EQ(recorder.calls.back(), "base.destroy");
}

TEST_F(StrategyLayersTest, NameTheLayerThatFillsEachSlot) {
  std::vector<std::string> lines;
  for (const SlotOwner& owner : slot_owners(blueprints())) lines.push_back(std::string(owner.slot) + " " + owner.layer);
  EXPECT_THAT(lines, ElementsAre("plan base", "init_dist_connection base", "configure_model base", "plan_buckets base",
                                 "layout_ready a", "begin_step base", "reduce_bucket b", "end_backward base",
                                 "clip_gradients base", "optimizer_step base", "end_step free", "pause base",
                                 "save_state base", "load_state base", "shutdown base", "get_extension base"));
}

}  // namespace
}  // namespace cohort::host
