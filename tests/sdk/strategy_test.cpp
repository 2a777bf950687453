#include <cohort/sdk/strategy.hpp>

#include <cstring>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

#include "fake_host.hpp"
#include "fake_strategy.hpp"

namespace {

using cohort::test::FakeHost;
using cohort::test::LayerOver;
using cohort::test::RecordingBase;
using testing::ElementsAre;
using testing::HasSubstr;

struct Nothing final : cohort::sdk::Strategy<Nothing> {};

struct Loud : cohort::sdk::Strategy<Loud> {
  void end_step(const cohort_step& step) {
    below().end_step(step);
    log().info("step ", step.step, " is done");
  }
};

struct Everything : cohort::sdk::Strategy<Everything> {
  static constexpr bool kPartialGradients = true;
  void create(const cohort::sdk::Options&) {}
  void plan(const cohort_job& job, cohort_plan& plan) { below().plan(job, plan); }
  void init_dist_connection(cohort_dist_args& args) {
    args.rank += 1;
    below().init_dist_connection(args);
  }
  void configure_model() { below().configure_model(); }
  void begin_step(const cohort_step& step) { below().begin_step(step); }
  void plan_buckets(cohort_bucket_plan& plan) { below().plan_buckets(plan); }
  void layout_ready(int32_t reason) { below().layout_ready(reason); }
  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) { below().reduce_bucket(step, bucket); }
  void end_backward(const cohort_step& step) { below().end_backward(step); }
  void clip_gradients(const cohort_step& step, const cohort_clip_args& args) { below().clip_gradients(step, args); }
  void optimizer_step(const cohort_step& step) { below().optimizer_step(step); }
  void end_step(const cohort_step& step) { below().end_step(step); }
  void pause(int32_t reason) { below().pause(reason); }
  void save_state() { below().save_state(); }
  void load_state() { below().load_state(); }
  void shutdown() { below().shutdown(); }
  const void* get_extension(const char* id) { return std::string(id) == "mine/1" ? this : nullptr; }
};

// Calls the inherited steps as methods of its base class.
struct Defaults : cohort::sdk::Strategy<Defaults> {
  void plan(const cohort_job& job, cohort_plan& plan) { Strategy::plan(job, plan); }
  void init_dist_connection(cohort_dist_args& args) { Strategy::init_dist_connection(args); }
  void configure_model() { Strategy::configure_model(); }
  void plan_buckets(cohort_bucket_plan& plan) { Strategy::plan_buckets(plan); }
  void layout_ready(int32_t reason) { Strategy::layout_ready(reason); }
  void begin_step(const cohort_step& step) { Strategy::begin_step(step); }
  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) { Strategy::reduce_bucket(step, bucket); }
  void end_backward(const cohort_step& step) { Strategy::end_backward(step); }
  void clip_gradients(const cohort_step& step, const cohort_clip_args& args) { Strategy::clip_gradients(step, args); }
  void optimizer_step(const cohort_step& step) { Strategy::optimizer_step(step); }
  void end_step(const cohort_step& step) { Strategy::end_step(step); }
  void pause(int32_t reason) { Strategy::pause(reason); }
  void save_state() { Strategy::save_state(); }
  void load_state() { Strategy::load_state(); }
  void shutdown() { Strategy::shutdown(); }
  const void* get_extension(const char* id) { return Strategy::get_extension(id); }
};

// Slots of a class between the layer and the SDK count, and a method may be const.
template <class D>
struct HalfStrategy : cohort::sdk::Strategy<D> {
  void begin_step(const cohort_step&) const {}
};
struct Whole final : HalfStrategy<Whole> {};

enum class Throw { kError, kSilentError, kRuntimeError, kBadAlloc, kInt, kOkError };

struct Thrower : cohort::sdk::Strategy<Thrower> {
  explicit Thrower() = default;
  void create(const cohort::sdk::Options& options) { what_ = static_cast<Throw>(options.integer("what")); }
  void shutdown() {
    switch (what_) {
      case Throw::kError:
        throw cohort::sdk::Error(COHORT_UNAVAILABLE, "rank 3 is gone");
      case Throw::kSilentError:
        throw cohort::sdk::Error(COHORT_ABORTED, "");
      case Throw::kRuntimeError:
        throw std::runtime_error("no such thing");
      case Throw::kBadAlloc:
        throw std::bad_alloc();
      case Throw::kInt:
        throw 42;
      case Throw::kOkError:
        throw cohort::sdk::Error(COHORT_OK, "not really fine");
    }
  }
  Throw what_ = Throw::kError;
};

struct CannotBeMade : cohort::sdk::Strategy<CannotBeMade> {
  void create(const cohort::sdk::Options& options) {
    throw cohort::sdk::invalid_argument("variant " + std::string(options.variant()) + " is not possible here");
  }
};

const cohort_strategy_vt& table_of(const cohort_component& component) {
  return *static_cast<const cohort_strategy_vt*>(component.vtable);
}

constexpr cohort_component kNothing = cohort::sdk::strategy<Nothing>("nothing", "changes nothing");
constexpr cohort_component kLoud = cohort::sdk::strategy<Loud>("loud", "ddp that talks").inherits("ddp");
constexpr cohort_component kEverything = cohort::sdk::strategy<Everything>("everything", "changes everything");
constexpr cohort_component kDefaults = cohort::sdk::strategy<Defaults>("defaults", "inherits all");
constexpr cohort_component kWhole = cohort::sdk::strategy<Whole>("whole", "begins steps");
constexpr cohort_component kThrower = cohort::sdk::strategy<Thrower>("thrower", "throws");
constexpr cohort_component kCannotBeMade = cohort::sdk::strategy<CannotBeMade>("cannot", "cannot be made");

cohort_status shutdown_throwing(Throw what, std::string& message) {
  FakeHost host;
  RecordingBase base;
  LayerOver layer(table_of(kThrower), base, host.raw());
  const std::string value = std::to_string(static_cast<int>(what));
  EXPECT_EQ(layer.create("", {{"what", value.c_str()}}), COHORT_OK);
  const cohort_status status = layer.vt().shutdown(layer.get());
  message = host.take_failure();
  return status;
}

TEST(SdkStrategy, LeavesOtherSlotsNull) {
  cohort_strategy_vt bare{};
  bare.struct_size = sizeof bare;
  bare.create = table_of(kNothing).create;
  bare.destroy = table_of(kNothing).destroy;
  EXPECT_NE(bare.create, nullptr);
  EXPECT_NE(bare.destroy, nullptr);
  EXPECT_EQ(std::memcmp(&bare, &table_of(kNothing), sizeof bare), 0);
}

TEST(SdkStrategy, FillsSlotsFromAClassBetween) {
  EXPECT_NE(table_of(kWhole).begin_step, nullptr);
  EXPECT_EQ(table_of(kWhole).end_step, nullptr);
}

TEST(SdkStrategy, SetsOnlyTheSlotThatTheClassDefines) {
  const auto& vt = table_of(kLoud);
  EXPECT_NE(vt.end_step, nullptr);
  EXPECT_EQ(vt.begin_step, nullptr);
  EXPECT_EQ(vt.plan, nullptr);
  EXPECT_STREQ(kLoud.inherits, "ddp");
  EXPECT_EQ(kLoud.kind, COHORT_KIND_STRATEGY);
}

TEST(SdkStrategy, CallsTheInheritedStepAndLogs) {
  FakeHost host;
  RecordingBase base;
  LayerOver layer(table_of(kLoud), base, host.raw());
  ASSERT_EQ(layer.create(), COHORT_OK);
  cohort_step step{};
  step.step = 7;
  EXPECT_EQ(layer.vt().end_step(layer.get(), &step), COHORT_OK);
  EXPECT_THAT(base.calls, ElementsAre("end_step"));
  EXPECT_THAT(host.log_lines(), ElementsAre("step 7 is done"));
}

// Calls every slot of a layer and expects that each reaches the layer below once.
void expect_forwarding(const cohort_component& component, RecordingBase& base) {
  FakeHost host;
  LayerOver layer(table_of(component), base, host.raw());
  ASSERT_EQ(layer.create(), COHORT_OK);
  const auto& vt = layer.vt();
  cohort_job job{};
  cohort_plan plan{};
  cohort_dist_args args{};
  args.rank = 4;
  cohort_step step{};
  cohort_bucket bucket{};
  cohort_bucket_plan layout{};
  EXPECT_EQ(vt.plan(layer.get(), &job, &plan), COHORT_OK);
  EXPECT_EQ(vt.init_dist_connection(layer.get(), &args), COHORT_OK);
  EXPECT_EQ(vt.configure_model(layer.get()), COHORT_OK);
  EXPECT_EQ(vt.plan_buckets(layer.get(), &layout), COHORT_OK);
  EXPECT_EQ(vt.layout_ready(layer.get(), COHORT_LAYOUT_NEW), COHORT_OK);
  EXPECT_EQ(vt.begin_step(layer.get(), &step), COHORT_OK);
  EXPECT_EQ(vt.reduce_bucket(layer.get(), &step, &bucket), COHORT_OK);
  EXPECT_EQ(vt.end_backward(layer.get(), &step), COHORT_OK);
  const cohort_clip_args limit{sizeof limit, COHORT_CLIP_NORM, 1.0, nullptr, nullptr};
  EXPECT_EQ(vt.clip_gradients(layer.get(), &step, &limit), COHORT_OK);
  EXPECT_EQ(vt.optimizer_step(layer.get(), &step), COHORT_OK);
  EXPECT_EQ(vt.end_step(layer.get(), &step), COHORT_OK);
  EXPECT_EQ(vt.pause(layer.get(), COHORT_PAUSE_END), COHORT_OK);
  EXPECT_EQ(vt.save_state(layer.get()), COHORT_OK);
  EXPECT_EQ(vt.load_state(layer.get()), COHORT_OK);
  EXPECT_EQ(vt.shutdown(layer.get()), COHORT_OK);
  EXPECT_THAT(base.calls, ElementsAre("plan", "init_dist_connection", "configure_model", "plan_buckets", "layout_ready",
                                      "begin_step", "reduce_bucket", "end_backward", "clip_gradients", "optimizer_step",
                                      "end_step", "pause", "save_state", "load_state", "shutdown"));
}

TEST(SdkStrategy, ForwardsEverySlotToSuper) {
  RecordingBase base;
  expect_forwarding(kEverything, base);
  EXPECT_EQ(table_of(kEverything).flags, COHORT_STRATEGY_PARTIAL_GRADIENTS);
  EXPECT_EQ(base.last_dist_args.rank, 5);
}

TEST(SdkStrategy, InheritsEverySlotByDefault) {
  RecordingBase base;
  expect_forwarding(kDefaults, base);
}

TEST(SdkStrategy, AsksTheInheritedCodeForExtensionsItDoesNotKnow) {
  FakeHost host;
  RecordingBase base;
  LayerOver layer(table_of(kEverything), base, host.raw());
  ASSERT_EQ(layer.create(), COHORT_OK);
  EXPECT_EQ(layer.vt().get_extension(layer.get(), "mine/1"), layer->data);
  EXPECT_THAT(base.calls, ElementsAre());
  EXPECT_EQ(layer.vt().get_extension(layer.get(), "other/1"), nullptr);
  EXPECT_THAT(base.calls, ElementsAre("get_extension"));
}

TEST(SdkStrategy, PassesOnTheStatusOfAnInheritedCallThatFailsAndKeepsItsMessage) {
  FakeHost host;
  RecordingBase base;
  base.result = COHORT_DEADLINE_EXCEEDED;
  LayerOver layer(table_of(kEverything), base, host.raw());
  ASSERT_EQ(layer.create(), COHORT_OK);
  host.raw()->fail(host.raw(), COHORT_DEADLINE_EXCEEDED, "left by base");
  EXPECT_EQ(layer.vt().configure_model(layer.get()), COHORT_DEADLINE_EXCEEDED);
  EXPECT_EQ(host.take_failure(), "left by base");
}

TEST(SdkStrategy, TurnsExceptionsIntoStatusAndMessage) {
  std::string message;
  EXPECT_EQ(shutdown_throwing(Throw::kError, message), COHORT_UNAVAILABLE);
  EXPECT_EQ(message, "rank 3 is gone");
  EXPECT_EQ(shutdown_throwing(Throw::kSilentError, message), COHORT_ABORTED);
  EXPECT_EQ(message, "");
  EXPECT_EQ(shutdown_throwing(Throw::kRuntimeError, message), COHORT_INTERNAL);
  EXPECT_EQ(message, "no such thing");
  EXPECT_EQ(shutdown_throwing(Throw::kBadAlloc, message), COHORT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(message, "out of memory");
  EXPECT_EQ(shutdown_throwing(Throw::kInt, message), COHORT_INTERNAL);
  EXPECT_THAT(message, HasSubstr("not a std::exception"));
  EXPECT_EQ(shutdown_throwing(Throw::kOkError, message), COHORT_INTERNAL);
  EXPECT_EQ(message, "not really fine");
}

TEST(SdkStrategy, MakesNoObjectWhereCreateThrows) {
  FakeHost host;
  RecordingBase base;
  LayerOver layer(table_of(kCannotBeMade), base, host.raw());
  EXPECT_EQ(layer.create("fast"), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(layer->data, nullptr);
  EXPECT_EQ(host.take_failure(), "variant fast is not possible here");
}

TEST(SdkStrategy, MakesOneObjectPerLayer) {
  FakeHost host;
  RecordingBase base;
  LayerOver one(table_of(kLoud), base, host.raw());
  LayerOver two(table_of(kLoud), base, host.raw());
  ASSERT_EQ(one.create(), COHORT_OK);
  ASSERT_EQ(two.create(), COHORT_OK);
  EXPECT_NE(one->data, two->data);
}

}  // namespace
