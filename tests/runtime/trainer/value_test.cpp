#include <cohort/value.hpp>

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/module.hpp>

#include "error_text.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;

Batch nested() {
  return Batch::map({{"x", torch::ones({4, 2})},
                     {"rest", Batch::list({torch::zeros({4}), Batch::map({{"deep", torch::full({}, 3)}})})}});
}

TEST(Value, AListOfTensorsIsTakenApartByPosition) {
  const Batch batch({torch::ones({3}), torch::zeros({3})});
  EXPECT_EQ(batch.size(), 2U);
  EXPECT_TRUE(torch::equal(batch[0], torch::ones({3})));
  const at::Tensor& second = batch[1];
  EXPECT_TRUE(torch::equal(second, torch::zeros({3})));
}

TEST(Value, AnElementDoesWhatATensorCan) {
  const Batch batch({torch::ones({3, 2}), torch::arange(3)});
  EXPECT_EQ(batch[0].view({2, 3}).size(0), 2);
  EXPECT_EQ(batch[0].size(-1), 2);
  EXPECT_EQ(batch[0].device(), at::kCPU);
  EXPECT_EQ(batch[1].to(torch::kDouble).scalar_type(), torch::kDouble);
  EXPECT_EQ(batch[1].to(torch::kCPU).sum().item<int64_t>(), 3);
  EXPECT_TRUE(
      torch::equal(batch[0] * 2 + batch[1].unsqueeze(1), torch::tensor({{2., 2.}, {3., 3.}, {4., 4.}}, torch::kFloat)));
  auto x = batch[0];
  x = x.flatten();
  EXPECT_EQ(x.numel(), 6);
  EXPECT_EQ(nested()["rest"].size(), 2U);
  EXPECT_TRUE(nested()["rest"].is_list());
  const Value copy = nested()["rest"];
  EXPECT_EQ(copy[1]["deep"].item<int64_t>(), 3);
}

TEST(Value, AListOfTwoIsTakenApart) {
  const Batch batch({torch::ones({3}), torch::zeros({2})});
  auto [x, y] = batch;
  EXPECT_TRUE(torch::equal(x + 1, torch::full({3}, 2.)));
  EXPECT_EQ(y.view({-1}).size(0), 2);
  const auto& [first, rest] = nested();
  EXPECT_EQ(first.dim(), 2);
  EXPECT_EQ(rest[1]["deep"].item<int64_t>(), 3);
  const auto take_apart = [](const Batch& three) { auto [a, b] = three; };
  EXPECT_THAT(error_text<UserError>([&] { take_apart(Batch(Batch::List(3, torch::ones({1})))); }),
              HasSubstr("list of 3"));
  EXPECT_THAT(error_text<UserError>([&] { take_apart(torch::ones({2})); }), HasSubstr("tensor"));
}

TEST(Value, AMapIsWrittenInBraces) {
  const auto step = [](const at::Tensor& loss) -> Output { return {{"loss", loss}, {"logits", loss + 1}}; };
  const Output output = step(torch::ones({}));
  ASSERT_TRUE(output.is_map());
  EXPECT_EQ(output["logits"].item<float>(), 2);
  const Output one{{"loss", torch::ones({})}};
  EXPECT_EQ(one.entries().front().first, "loss");
  const auto tensor = []() -> Output { return {torch::ones({2})}; };
  EXPECT_TRUE(tensor().is_tensor());
  const auto nothing = []() -> Output { return {}; };
  EXPECT_TRUE(nothing().empty());
}

TEST(Value, AKeyThatIsThereTwiceIsRefused) {
  const at::Tensor a = torch::ones({1});
  constexpr const char* kText = "a batch or output has two elements with the key 'loss'; give each a key of its own";
  EXPECT_EQ(error_text<UserError>([&] { Output({{"loss", a}, {"loss", a}}); }), kText);
  EXPECT_EQ(error_text<UserError>([&] { Value::map({{"loss", a}, {"x", a}, {"loss", a}}); }), kText);
  EXPECT_EQ(error_text<UserError>([&] {
              Value::Map map;
              map.emplace_back("loss", a);
              map.emplace_back("loss", Value());
              Batch batch(std::move(map));
            }),
            kText);
}

TEST(Value, ASequentialTakesBatchesAndElements) {
  torch::nn::Sequential net(torch::nn::Linear(2, 3), torch::nn::ReLU());
  const Batch batch({torch::ones({4, 2}), torch::zeros({4})}), alone(torch::ones({4, 2}));
  const auto expected = net->forward(torch::ones({4, 2}));
  EXPECT_TRUE(torch::equal(net->forward(batch[0]), expected));
  EXPECT_TRUE(torch::equal(net->forward(alone), expected));
  const auto [x, y] = batch;
  EXPECT_TRUE(torch::equal(net->forward(x), expected));
  EXPECT_THAT(error_text<UserError>([&] { net->forward(batch); }), HasSubstr("list of 2"));
}

TEST(Value, NestsAndIsTakenApartByKey) {
  EXPECT_EQ(nested()["rest"][1]["deep"].tensor().item<int64_t>(), 3);
  EXPECT_EQ(nested().find("absent"), nullptr);
}

TEST(BatchSize, IsDimensionZeroOfAllTensors) {
  EXPECT_EQ(nested().batch_size(), 4);
  EXPECT_EQ(Batch({torch::tensor(1), torch::ones({7, 2})}).batch_size(), 7);
  EXPECT_EQ(Batch(torch::tensor(1)).batch_size(), 1);
  EXPECT_EQ(Batch().batch_size(), 1);
}

TEST(BatchSize, IsRefusedIfTensorsDiffer) {
  const Batch ragged{{"x", torch::ones({10, 2})}, {"y", Batch::list({torch::ones({4}), torch::ones({4, 3})})}};
  EXPECT_THAT(
      error_text<UserError>([&] { static_cast<void>(ragged.batch_size()); }),
      HasSubstr("tensors with 10 and with 4 rows, so its number of samples is not known; say it where the batch "
                "is made: batch.samples(N)"));
}

TEST(BatchSize, IsWhatTheBatchSays) {
  Batch batch({torch::ones({10, 2}), torch::ones({4})});
  batch.samples(4);
  EXPECT_EQ(batch.batch_size(), 4);
  EXPECT_EQ(batch.to(c10::kCPU).batch_size(), 4);
  EXPECT_EQ(batch.map_tensors([](const at::Tensor& tensor) { return tensor * 2; }).batch_size(), 4);
  EXPECT_EQ(Batch(torch::ones({3, 5})).samples(5).batch_size(), 5) << "time first";
  EXPECT_EQ(Batch(torch::ones({2})).kept_samples({2, 0}).batch_size(), 2);
  EXPECT_THAT(error_text<UserError>([&] { batch.samples(-1); }), HasSubstr("a batch has 0 samples or more"));
}

TEST(Value, SurvivesTheWayThroughAnIValue) {
  const Value back = Value::from_ivalue(nested().to_ivalue());
  EXPECT_TRUE(torch::equal(back["x"], torch::ones({4, 2})));
  EXPECT_EQ(back["rest"][1]["deep"].tensor().item<int64_t>(), 3);
  EXPECT_TRUE(Value::from_ivalue(Value().to_ivalue()).empty());
}

TEST(Value, TakesTuplesAndListsOfTensorsFromTorchScript) {
  const c10::IValue tuple = c10::ivalue::Tuple::create(torch::ones({2}), torch::zeros({2}));
  EXPECT_TRUE(torch::equal(Value::from_ivalue(tuple)[1], torch::zeros({2})));
  EXPECT_EQ(Value::from_ivalue(std::vector<at::Tensor>{torch::ones({2})}).size(), 1U);
}

TEST(Value, RefusesWhatIsNoBatch) {
  EXPECT_THAT(error_text<UserError>([] { Value::from_ivalue(1.5); }), HasSubstr("Double"));
  c10::impl::GenericDict numbered(c10::IntType::get(), c10::AnyType::get());
  numbered.insert(1, torch::ones({1}));
  EXPECT_THAT(error_text<UserError>([&] { Value::from_ivalue(numbered); }), HasSubstr("strings as keys"));
}

TEST(Value, SaysWhatItIsWhereSomethingElseWasExpected) {
  const Batch batch({torch::ones({3}), torch::zeros({3})});
  EXPECT_THAT(error_text<UserError>([&] { batch.tensor(); }), HasSubstr("list of 2"));
  EXPECT_THAT(error_text<UserError>([&] { batch[2]; }), HasSubstr("list of 2"));
  EXPECT_THAT(error_text<UserError>([] { nested()["y"]; }), HasSubstr("\"rest\""));
  EXPECT_THAT(error_text<UserError>([] { Batch(torch::ones({1}))[0]; }), HasSubstr("tensor"));
}

TEST(Value, MovingToTheDeviceItIsOnCopiesNothing) {
  const Batch batch({torch::ones({3})}), moved = nested().to(at::kCPU);
  EXPECT_EQ(moved["rest"][0].tensor().device(), at::kCPU);
  EXPECT_EQ(batch.to(at::kCPU).tensor().data_ptr(), batch.tensor().data_ptr());
}

}  // namespace
}  // namespace cohort
