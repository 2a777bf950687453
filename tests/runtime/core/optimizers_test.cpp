// Spellings of optimizers and their schedules.
#include <cohort/optimizers.hpp>

#include <gmock/gmock.h>
#include <torch/optim/adamw.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

#include <cohort/host/error.hpp>

#include "error_text.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;
using torch::optim::OptimizerParamGroup;

std::vector<at::Tensor> parameters() {
  return {torch::ones({2}, torch::requires_grad())};
}
torch::optim::AdamW adamw() {
  return torch::optim::AdamW(parameters(), 1e-3);
}
torch::optim::SGD two_groups() {
  return torch::optim::SGD({OptimizerParamGroup(parameters()), OptimizerParamGroup(parameters())},
                           torch::optim::SGDOptions(0.1));
}

Optimizers by_value() {
  return adamw();
}
Optimizers by_shared_pointer() {
  return std::make_shared<torch::optim::SGD>(parameters(), 0.1);
}
Optimizers by_unique_pointer() {
  return std::make_unique<torch::optim::SGD>(parameters(), 0.1);
}
Optimizers with_a_schedule() {
  return {adamw(), schedule::cosine({.warmup_steps = 100})};
}
Optimizers with_a_schedule_for_each_group() {
  return {two_groups(), {schedule::cosine(), schedule::constant()}};
}
Optimizers several_by_name() {
  return {{"generator", adamw()},
          {"critic", std::make_unique<torch::optim::SGD>(parameters(), 0.1), schedule::cosine()}};
}

Optimizers several_without_names() {
  return {adamw(), std::make_unique<torch::optim::SGD>(parameters(), 0.1)};
}

TEST(Optimizers, TakeOneByValueAndByPointer) {
  for (const auto& one : {by_value(), by_shared_pointer(), by_unique_pointer()}) {
    ASSERT_EQ(one.size(), 1U);
    EXPECT_EQ(one.name(0), "");
    EXPECT_TRUE(one.schedules(0).empty());
    EXPECT_FALSE(one.have_schedules());
  }
  EXPECT_NE(dynamic_cast<torch::optim::AdamW*>(&by_value()[0]), nullptr) << "is still of its kind";
}

TEST(Optimizers, TakeSchedulesForAllGroupsOrForEach) {
  const Optimizers one = with_a_schedule();
  EXPECT_TRUE(one.have_schedules());
  ASSERT_EQ(one.schedules(0).size(), 1U);
  EXPECT_EQ(one.schedules(0)[0].timing().warmup_steps, 100);
  EXPECT_EQ(with_a_schedule_for_each_group().schedules(0).size(), 2U);
  EXPECT_EQ(Optimizers().add(two_groups(), schedule::constant()).schedules(0).size(), 1U);
}

TEST(Optimizers, TakeSeveralByName) {
  const Optimizers both = several_by_name();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both.name(0), "generator");
  EXPECT_EQ(both.name(1), "critic");
  EXPECT_TRUE(both.schedules(0).empty());
  EXPECT_EQ(both.schedules(1).size(), 1U);
  EXPECT_EQ(Optimizers(adamw()).add({"second", adamw()}).name(1), "second");
}

TEST(Optimizers, TakeSeveralWithoutNames) {
  const Optimizers both = several_without_names();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both.name(1), "");
  EXPECT_NE(dynamic_cast<torch::optim::SGD*>(&both[1]), nullptr);
}

TEST(Optimizers, RefuseWhatIsNone) {
  EXPECT_THAT(error_text<UserError>([] { Optimizers(std::shared_ptr<torch::optim::SGD>()); }), HasSubstr("null"));
  EXPECT_THAT(error_text<UserError>([] {
                Optimizers{{"one", adamw()}, {"one", adamw()}};
              }),
              HasSubstr("two optimizers are called 'one'"));
  EXPECT_THAT(error_text<UserError>([] { Optimizers().add({"a/b", adamw()}); }), HasSubstr("'a/b'"));
  EXPECT_THAT(error_text<UserError>([] {
                Optimizers().add(adamw(), {schedule::constant(), schedule::constant()});
              }),
              HasSubstr("1 parameter groups and 2 schedules"));
}

TEST(Schedule, RefusesNumbersThatMakeNone) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::function<Schedule()>> wrong{[] { return schedule::constant({.warmup_steps = -1}); },
                                                     [] { return schedule::constant({.warmup_start = kNan}); },
                                                     [] { return schedule::constant({.length = 5}); },
                                                     [] { return schedule::cosine({.length = 0}); },
                                                     [] { return schedule::cosine({.warmup_steps = 5, .length = 5}); },
                                                     [] { return schedule::cosine(-0.5); },
                                                     [] { return schedule::linear(kNan); },
                                                     [] { return schedule::step(0); },
                                                     [] { return schedule::step(3, -0.1); },
                                                     [] { return schedule::multi_step({3}, kNan); },
                                                     [] { return schedule::exponential(-1); },
                                                     [] { return schedule::one_cycle({.rise = 1.5}); },
                                                     [] { return schedule::one_cycle({.div_factor = 0}); },
                                                     [] { return schedule::plateau({.factor = 1}); },
                                                     [] { return schedule::plateau({.patience = -1}); },
                                                     [] { return schedule::plateau({.min_lr = -1}); },
                                                     [] { return schedule::plateau({}, {.by_epoch = true}); },
                                                     [] { return schedule::function({}); }};
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_THAT(error_text<UserError>([&] { wrong[i](); }), HasSubstr("a learning-rate schedule: ")) << "number " << i;
  }
}

}  // namespace
}  // namespace cohort
