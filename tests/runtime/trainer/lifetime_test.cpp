// Idioms of programs that others have written: what they bind to a reference outlives the temporary that gave it.
// AddressSanitizer sees those that do not.
#include <filesystem>
#include <optional>

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cohort/hyper_parameters.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/safetensors.hpp>
#include <cohort/schedule.hpp>
#include <cohort/value.hpp>

#include "temporary_folder.hpp"

namespace cohort {
namespace {

Batch images() {
  return Batch::map({{"image", torch::arange(8.).view({4, 2})},
                     {"label", torch::arange(4)},
                     {"views", Batch::list({torch::ones({2}), torch::full({2}, 2.)})},
                     {"more", Batch::map({{"deep", torch::full({2}, 3.)}})}});
}

TEST(Lifetime, TensorsOfElementsOutliveTheElements) {
  const auto& image = images()["image"].tensor();
  const at::Tensor& label = images()["label"];
  const torch::Tensor& first = images()[0].tensor();
  auto&& deep = images()["more"]["deep"].tensor();
  const at::Tensor& alone = Batch(torch::full({1}, 5.));
  EXPECT_EQ(image.sum().item<double>(), 28);
  EXPECT_EQ(label.sum().item<int64_t>(), 6);
  EXPECT_EQ(first.size(0), 4);
  EXPECT_EQ(deep.sum().item<double>(), 6);
  EXPECT_EQ(alone.item<double>(), 5);
}

TEST(Lifetime, LoopsRunOverItemsOfTemporaries) {
  double sum = 0;
  for (const auto& view : images()["views"].items()) sum += view.tensor().sum().item<double>();
  for (auto& view : images()["views"].items()) sum += view.tensor().sum().item<double>();
  for (const auto& [key, value] : images()["more"].entries()) sum += value.tensor().sum().item<double>();
  for (const auto& [key, value] : images().entries()) sum += static_cast<double>(key.size());
  EXPECT_EQ(sum, 6 + 6 + 6 + 19);
  const auto& entries = images()["more"].entries();
  EXPECT_EQ(entries.front().first, "deep");
}

TEST(Lifetime, WhatIsFoundInATemporaryOutlivesIt) {
  const auto deep = images()["more"].find("deep");
  ASSERT_NE(deep, nullptr);
  EXPECT_EQ(deep->tensor().sum().item<double>(), 6);
  if (const auto label = images().find("label")) {
    EXPECT_EQ(label->tensor().numel(), 4);
  }
  EXPECT_EQ(images().find("absent"), nullptr);
  const Batch batch = images();
  const Value* kept = batch.find("label");
  ASSERT_NE(kept, nullptr);
  EXPECT_TRUE(kept->tensor().is_same(batch["label"]));
}

TEST(Lifetime, PairsOfElementsAreTakenApart) {
  const auto& [one, two] = images()["views"];
  EXPECT_EQ((one + two).sum().item<double>(), 6);
  auto [x, y] = images()["views"];
  EXPECT_EQ((x * y).sum().item<double>(), 4);
}

TEST(Lifetime, AnElementIsIndexedAsItsTensor) {
  const Batch batch({torch::arange(8.).view({4, 2}), torch::arange(4)});
  EXPECT_EQ(batch[0][3][1].item<double>(), 7);
  EXPECT_EQ(batch[0][-1].sum().item<double>(), 13);
  EXPECT_EQ(batch[0][torch::tensor(2)].sum().item<double>(), 9);
  EXPECT_EQ(images()["label"][2].item<int64_t>(), 2);
  for (int64_t i = 0; i < batch[1].size(0); ++i) EXPECT_EQ(batch[1][i].item<int64_t>(), i);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(batch[1][i].item<int64_t>(), static_cast<int64_t>(i));
  EXPECT_EQ(images()["views"][1].sum().item<double>(), 4);
  EXPECT_THROW(batch[0][4], std::exception);
  const Batch more = images();
  EXPECT_THROW(more["views"][-1], std::exception);
}

TEST(Lifetime, ARowThatIsAssignedIsWritten) {
  const Batch batch({torch::zeros({4, 2}), torch::arange(4)});
  batch[0][1] = torch::full({2}, 3.);
  batch[0][2] = 5;
  EXPECT_TRUE(torch::equal(batch[0].sum(1), torch::tensor({0., 6., 10., 0.}, torch::kFloat)));
  batch[1] = torch::ones({4}, torch::kLong);
  EXPECT_EQ(batch[1].sum().item<int64_t>(), 4);
  auto x = batch[0];
  x = torch::ones({1});
  EXPECT_EQ(batch[0].numel(), 8) << "a variable is given another tensor";
  EXPECT_TRUE(x.tensor().is_same(x));
  EXPECT_THROW(images()["views"] = torch::ones({2}), std::exception);
}

TEST(Lifetime, ElementsAreArgumentsOfFunctionsOfTorch) {
  const Batch batch({torch::ones({4, 2}), torch::zeros({4}, torch::kLong)});
  torch::nn::Linear net(2, 3);
  const auto& logits = net->forward(batch[0]);
  EXPECT_GT(torch::nn::functional::cross_entropy(logits, batch[1]).item<double>(), 0);
  EXPECT_EQ(torch::stack({batch[0], batch[0]}).size(0), 2);
  EXPECT_EQ(torch::cat({batch[0].tensor(), batch[0].tensor()}).size(0), 8);
  EXPECT_EQ((batch[1] == 0).sum().item<int64_t>(), 4);
  EXPECT_EQ((true ? batch[0] : batch[1]).numel(), 8);
}

TEST(Lifetime, OtherReadersGiveWhatTheirTemporaryHolds) {
  const auto& text =
      HyperParameters{{"name", "a name that is too long to be kept within the string itself"}}.text("name");
  EXPECT_EQ(text.substr(0, 6), "a name");

  const testing::TemporaryFolder folder;
  write_safetensors(folder.path() / "x.safetensors", {{"x", torch::ones({3})}});
  const auto found = read_safetensors(folder.path() / "x.safetensors").find("x");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->numel(), 3);
  for (const auto& [name, tensor] : read_safetensors(folder.path() / "x.safetensors").tensors)
    EXPECT_EQ(tensor.numel(), 3);

  const auto& kind = schedule::cosine().kind();
  EXPECT_TRUE(std::holds_alternative<schedule::Curve>(kind));
  const auto& timing = schedule::step(2, 0.5, {.by_epoch = true}).timing();
  EXPECT_TRUE(timing.by_epoch);
  const auto optimizers = [] {
    return Optimizers{{"a_name_that_is_too_long_to_be_kept_within_the_string_itself",
                       torch::optim::SGD({torch::ones({1}, torch::requires_grad())}, 0.1)}};
  };
  const auto& name = optimizers().name(0);
  EXPECT_EQ(name.substr(0, 6), "a_name");
}

}  // namespace
}  // namespace cohort
