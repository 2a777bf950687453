#include "settings/limits.hpp"

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "error_text.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;

TEST(Limits, TrainsAThousandEpochsUnlessSomethingIsSetAndSaysSo) {
  const auto limits = resolve_limits({}, {});
  EXPECT_EQ(limits.max_epochs, 1000);
  EXPECT_THAT(limits.notice, HasSubstr("1000 epochs"));
}

TEST(Limits, OtherEndsLeaveEpochsWithoutLimit) {
  Options options;
  options.max_steps = 5;
  EXPECT_FALSE(resolve_limits(options, {}).max_epochs);
  EXPECT_FALSE(resolve_limits({}, {.max_epochs = {}, .max_steps = {}, .max_time = std::chrono::seconds(5)}).max_epochs);
}

TEST(Limits, AFlagWinsOverTheProgramsDefault) {
  Options options;
  options.max_epochs = 3;
  const TrainerDefaults defaults{.max_epochs = 10, .max_steps = 7, .max_time = {}};
  EXPECT_EQ(resolve_limits(options, defaults).max_epochs, 3);
  EXPECT_EQ(resolve_limits(options, defaults).max_steps, 7);
  EXPECT_EQ(resolve_limits({}, defaults).max_epochs, 10);
}

TEST(Limits, MinusOneIsNoLimit) {
  Options options;
  options.max_epochs = -1;
  const auto limits = resolve_limits(options, {});
  EXPECT_FALSE(limits.max_epochs);
  EXPECT_EQ(limits.notice, "");
}

TEST(Limits, FastDevRunNeverRaisesALimit) {
  Options options;
  options.fast_dev_run = 5;
  options.limit_val_batches.count = 2;
  const auto limits = resolve_limits(options, {});
  EXPECT_EQ(limits.validation.count, 2);
  EXPECT_EQ(limits.train.count, 5);
  EXPECT_EQ(limits.max_epochs, 1);
  EXPECT_FALSE(limits.files);
}

TEST(Limits, FastDevRunValidatesInItsOneEpochWithoutASanityCheck) {
  Options options;
  options.fast_dev_run = 1;
  options.check_val_every_n_epoch = 3;
  options.num_sanity_val_steps = 2;
  EXPECT_EQ(resolve_limits(options, {}).validate_every_n_epochs, 1);
  EXPECT_EQ(resolve_limits(options, {}).sanity_batches, 0);
}

TEST(Limits, OverfitBatchesWinOverThoseOfTrainingAndValidation) {
  Options options;
  options.limit_train_batches.count = 9;
  options.overfit_batches = BatchLimit{.count = 3, .fraction = {}};
  const auto limits = resolve_limits(options, {});
  EXPECT_EQ(limits.train.count, 3);
  EXPECT_EQ(limits.validation.count, 3);
  EXPECT_TRUE(limits.overfits);
  EXPECT_FALSE(resolve_limits({}, {}).overfits);
}

TEST(ValidationInterval, IsCountedInBatches) {
  EXPECT_FALSE(validation_interval({}, 10));
  EXPECT_EQ(validation_interval(BatchLimit{.count = 4, .fraction = {}}, 10), 4);
  EXPECT_EQ(validation_interval(BatchLimit{.count = {}, .fraction = 0.25}, 8), 2);
  EXPECT_EQ(validation_interval(BatchLimit{.count = {}, .fraction = 0.01}, 8), 1);
  EXPECT_EQ(validation_interval(BatchLimit{.count = 4, .fraction = {}}, std::nullopt), 4);
}

TEST(ValidationInterval, ExplainsIntervalsThatCannotBe) {
  const auto message = [](BatchLimit interval, std::optional<int64_t> length) {
    return error_text<UserError>([&] { validation_interval(interval, length); });
  };
  EXPECT_THAT(message({.count = 11, .fraction = {}}, 10), HasSubstr("never reached"));
  EXPECT_THAT(message({.count = 0, .fraction = {}}, 10), HasSubstr("at least one"));
  EXPECT_THAT(message({.count = {}, .fraction = 0.5}, std::nullopt), HasSubstr("unknown length"));
}

TEST(Limits, ZeroSwitchesClippingOff) {
  Options options;
  options.gradient_clip_val = 2;
  EXPECT_EQ(resolve_limits(options, {}).clip->limit, 2);
  options.gradient_clip_val = 0;
  EXPECT_FALSE(resolve_limits(options, {}).clip);
}

}  // namespace
}  // namespace cohort
