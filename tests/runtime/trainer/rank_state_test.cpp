// What each rank has of its own in a checkpoint, for a run of another number of ranks.
#include <gmock/gmock.h>

#include "checkpoint/loop_state.hpp"
#include "forged_checkpoint.hpp"
#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Has a tensor of its rank, of which the mean does for other ranks or which none can take over.
struct Own final : Callback {
  explicit Own(bool mean) : has_mean(mean) {}
  std::string name() const override { return "own"; }
  void save_rank_state(CallbackState& state) const override {
    has_mean ? state.set_mean("part", part) : state.set("part", part);
  }
  void load_rank_state(const CallbackState& state) override { part = state.tensor("part").clone(); }
  const bool has_mean;
  at::Tensor part = torch::tensor({1.0, 5.0});
};

/// A checkpoint of two ranks, made from that of one; the second rank's tensor is given.
struct OfTwoRanks {
  OfTwoRanks(bool has_mean, const at::Tensor& second) {
    Stretch{folder.path()}(1, false, {std::make_shared<Own>(has_mean)});
    const fs::path checkpoint = find_checkpoints(folder.path()).at(0).path;
    const std::string section(has_mean ? kMeanSection : kTiedSection);
    fs::copy(checkpoint / rank_file(0), checkpoint / rank_file(1));
    Manifest manifest = read_manifest(checkpoint);
    manifest.world_size = 2;
    manifest.files[rank_file(1)] = manifest.files.at(rank_file(0));
    host::write_file(checkpoint / kManifestFile, to_json(manifest));
    forge(checkpoint, rank_file(1), [&](NamedTensors& tensors) {
      std::ranges::find(tensors, section + "/own/part", &NamedTensors::value_type::first)->second = second;
    });
  }
  /// Resumes with one rank; returns what it has now.
  at::Tensor resumed(bool has_mean) const {
    const auto own = std::make_shared<Own>(has_mean);
    Stretch{folder.path()}(2, true, {own});
    return own->part;
  }
  TemporaryFolder folder;
};

TEST(RankState, IsTheMeanOverTheRanksOfBefore) {
  const OfTwoRanks saved(true, torch::tensor({3.0, 6.0}));
  EXPECT_TRUE(saved.resumed(true).equal(torch::tensor({2.0, 5.5})));
}

TEST(RankState, WithoutAMeanIsRefusedByAnotherWorld) {
  const OfTwoRanks saved(false, torch::tensor({3.0, 6.0}));
  EXPECT_THAT(error_text<UserError>([&] { saved.resumed(false); }),
              AllOf(HasSubstr("cohort.rank/own/part"), HasSubstr("resume with 2 ranks")));
}

TEST(RankState, WithALineBreakInItsNameIsRefused) {
  struct Broken final : Callback {
    std::string name() const override { return "own"; }
    void save_rank_state(CallbackState& state) const override { state.set("two\nlines", 1.0); }
  };
  const TemporaryFolder folder;
  EXPECT_THAT(error_text<UserError>([&] { Stretch{folder.path()}(1, false, {std::make_shared<Broken>()}); }),
              AllOf(HasSubstr("two\\x0alines"), HasSubstr("give it another name")));
}

TEST(RankState, OfAnotherShapeOnARankHasNoMean) {
  const OfTwoRanks saved(true, torch::tensor({3.0}));
  EXPECT_THAT(error_text<UserError>([&] { saved.resumed(true); }),
              AllOf(HasSubstr("rank-1.safetensors"), HasSubstr("no part of the mean")));
}

}  // namespace
}  // namespace cohort::testing
