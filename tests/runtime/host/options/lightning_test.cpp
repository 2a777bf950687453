// Names and values that users of PyTorch Lightning write.
#include <gmock/gmock.h>

#include "given.hpp"

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LightningNames, AnswersAForeignFlagWithTheNearest) {
  EXPECT_EQ(refusal({"--ckpt_path=x"}), "option '--ckpt_path' is unknown; --resume=DIR goes on from a checkpoint");
  EXPECT_THAT(refusal({"--profiler=simple"}), HasSubstr("--profile=FILE"));
  EXPECT_THAT(refusal({"--enable-progress-bar=false"}), HasSubstr("--log-level=warning"));
}

TEST(LightningNames, OfWhatIsNotThereAreNotMistakenForOthers) {
  EXPECT_THAT(refusal({"--min-epochs=2"}), AllOf(HasSubstr("there is no such limit"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(refusal({"--min_steps=2"}), HasSubstr("--early-stopping"));
  EXPECT_THAT(refusal({"--benchmark"}), HasSubstr("setBenchmarkCuDNN(true)"));
  EXPECT_THAT(refusal({"--inference-mode=false"}), HasSubstr("without gradients"));
  EXPECT_THAT(refusal({"--reload_dataloaders_every_n_epochs=1"}), HasSubstr("asks once for its loader"));
  EXPECT_THAT(refusal({"--use-distributed-sampler=false"}), HasSubstr("each rank reads its share"));
}

TEST(LightningNames, NoneLeavesTheFlagOut) {
  for (const char* given : {"--max-steps=None", "--strategy=None", "--early-stopping=None", "--log-dir=None"}) {
    EXPECT_THAT(refusal({given}), HasSubstr(": 'None' is no value here; leave the option out for its default"))
        << given;
  }
  EXPECT_EQ(parse({"--log-dir=./None"}).log_dir, "./None");
}

TEST(LightningNames, MinusOneEpochsOrStepsAreNoLimit) {
  EXPECT_EQ(parse({"--max-epochs=-1"}).max_epochs, -1);
  EXPECT_EQ(parse({"--max-steps=-1"}).max_steps, -1);
  EXPECT_THAT(refusal({"--max-epochs=-2"}), HasSubstr("give a whole number from -1"));
}

TEST(LightningNames, DeterministicHasNoModeThatWarns) {
  EXPECT_THAT(refusal({"--deterministic=warn"}), HasSubstr("true or false; there is no mode that only warns"));
}

TEST(LightningNames, OfPrecisionReachTheField) {
  using enum Precision;
  EXPECT_EQ(parse({}).precision, k32);
  const std::pair<const char*, Precision> spellings[] = {
      {"32", k32},          {"32-true", k32},        {"64", k64},          {"64-true", k64},
      {"16", k16Mixed},     {"16-mixed", k16Mixed},  {"bf16", kBf16Mixed}, {"bf16-mixed", kBf16Mixed},
      {"16-true", k16True}, {"bf16-true", kBf16True}};
  for (const auto& [text, precision] : spellings) {
    EXPECT_EQ(parse({"--precision", text}).precision, precision) << text;
  }
  EXPECT_EQ(refusal({"--precision=8"}),
            "--precision: '8' is not possible; give 32, 16-mixed, bf16-mixed, 16-true, bf16-true or 64");
}

TEST(LightningNames, OfLoopsReachTheirFields) {
  const Options o = parse({"--limit-predict-batches=2", "--overfit_batches=0.5", "--check-val-every-n-epoch=3",
                           "--num-sanity-val-steps=4"});
  EXPECT_EQ(o.limit_predict_batches.count, 2);
  EXPECT_EQ(o.overfit_batches->fraction, 0.5);
  EXPECT_EQ(o.check_val_every_n_epoch, 3);
  EXPECT_EQ(o.num_sanity_val_steps, 4);
  EXPECT_FALSE(parse({}).overfit_batches);
  EXPECT_EQ(parse({}).check_val_every_n_epoch, 1);
  EXPECT_EQ(parse({}).num_sanity_val_steps, 2);
  EXPECT_EQ(parse({"--num-sanity-val-steps=-1"}).num_sanity_val_steps, -1);
  for (const char* wrong : {"--overfit-batches=0", "--check-val-every-n-epoch=0", "--num-sanity-val-steps=-2"}) {
    EXPECT_FALSE(refusal({wrong}).empty()) << wrong;
  }
}

TEST(LightningNames, ClippingIsSwitchedOffByZero) {
  EXPECT_EQ(parse({"--gradient-clip-val=0"}).gradient_clip_val, 0.0);
  EXPECT_THAT(refusal({"--gradient-clip-val=-1"}), HasSubstr("a number from 0"));
}

TEST(LightningNames, TheLongestTimeHasDaysAndAClock) {
  using std::chrono::seconds;
  EXPECT_EQ(parse({"--max-time=1d"}).max_time, seconds(86400));
  EXPECT_EQ(parse({"--max-time=01:02:03:04"}).max_time, seconds(86400 + 2 * 3600 + 3 * 60 + 4));
  EXPECT_EQ(parse({"--max-time=00:12:00:00"}).max_time, seconds(12 * 3600));
  for (const char* time : {"12:00", "00:24:00:00", "00:00:60:00", "00:00:00:60", "0:0:0:1s", "00:00:00:00",
                           ":::", "99999:00:00:00", "01:02:03:04:05"}) {
    EXPECT_THAT(refusal({std::string("--max-time=") + time}), HasSubstr("--max-time")) << time;
  }
}

}  // namespace
}  // namespace cohort::host
