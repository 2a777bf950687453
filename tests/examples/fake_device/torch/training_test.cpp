// Models train on a fake device to the bits of the CPU, and nothing races.
#include "backend.hpp"
#include "models.hpp"

namespace fake {
namespace {

using Case = std::tuple<const char*, const char*, bool>;

class Trained : public testing::TestWithParam<Case> {
 public:
  static void SetUpTestSuite() {
    open_backend();
    at::globalContext().setSDPUseFlash(false);  // of the CPU: a device takes the plain formula
  }

 protected:
  void TearDown() override { fakedrv_set_eager(0); }
};

std::string name_of(const testing::TestParamInfo<Case>& tested) {
  const auto& [model, optimizer, is_eager] = tested.param;
  return std::string(model) + "_" + optimizer + (is_eager ? "_eager" : "_lazy");
}

INSTANTIATE_TEST_SUITE_P(Models, Trained,
                         testing::Combine(testing::Values("mlp", "resnet", "gpt"), testing::Values("sgd", "adamw"),
                                          testing::Bool()),
                         name_of);

TEST_P(Trained, HasTheBitsOfTheCpu) {
  const auto& [model, optimizer, is_eager] = GetParam();
  fakedrv_set_eager(is_eager ? 1 : 0);
  const uint64_t races = fakedrv_num_races();
  const auto here = train({model, optimizer, torch::kCPU}), there = train({model, optimizer, device(1)});
  ASSERT_EQ(here.size(), there.size());
  for (size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(there[i].device(), device(1));
    EXPECT_TRUE(have_equal_bits(here[i], there[i])) << "tensor " << i << " of " << here.size();
  }
  EXPECT_FALSE(have_equal_bits(here[0], here[5])) << "the loss changes";
  EXPECT_EQ(fakedrv_num_races(), races);
}

}  // namespace
}  // namespace fake
