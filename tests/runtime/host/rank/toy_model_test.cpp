// The model of the toy host, alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/toy_host/toy_host.hpp>

namespace cohort::toy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Values = std::vector<double>;

TEST(ToyModel, StepsBySgdWithMomentum) {
  ToyModel model({{"w", 2}}, 1.0, 0.5, 0.5);
  for (int step = 0; step < 2; ++step) {
    model.add_gradient(0, Values{1, 2});
    model.optimizer_step(0);
    model.forget_gradient(0);
  }
  // Momenta 1, 2, then 1.5, 3.
  EXPECT_THAT(model.weights(0), ElementsAre(1 - 0.5 * 2.5, 1 - 0.5 * 5));
  EXPECT_THAT(model.state().momenta, ElementsAre(ElementsAre(1.5, 3)));
}

TEST(ToyModel, StepsOnlyWhatThePhaseOwnsAndBackwardReached) {
  ToyModel model({{"a", 1}, {"b", 1, COHORT_FLOAT32, true, 1}, {"c", 1, COHORT_FLOAT32, true, 1}}, 1.0, 1.0);
  EXPECT_EQ(model.num_phases(), 2u);
  EXPECT_EQ(model.phase_of(2), 1u);
  model.add_gradient(0, Values{1});
  model.add_gradient(1, Values{1});
  model.optimizer_step(1);
  EXPECT_THAT(model.state().weights, ElementsAre(ElementsAre(1), ElementsAre(0), ElementsAre(1)));
}

TEST(ToyModel, AddsMicroBatchesUntilTheGradientIsForgotten) {
  ToyModel model({{"w", 1}}, 0, 1.0);
  EXPECT_THAT(model.gradient(0), IsEmpty());
  model.add_gradient(0, Values{1});
  model.add_gradient(0, Values{2});
  EXPECT_THAT(model.gradient(0), ElementsAre(3));
  model.forget_gradient(0);
  model.add_gradient(0, Values{4});
  EXPECT_THAT(model.gradient(0), ElementsAre(4));
}

TEST(ToyModel, KeepsGradientsOfReplicasApart) {
  ToyModel model({{"w", 1}}, 0, 1.0, 0, 2);
  float place = 0;
  void* places[] = {&place};
  model.place_gradients(places);
  EXPECT_EQ(model.gradient_data(1, 0), nullptr);
  model.add_gradient(0, Values{2});
  model.add_gradient(0, Values{4}, 1);
  EXPECT_EQ(model.gradient_data(0, 0), &place);
  EXPECT_EQ(place, 2);
  EXPECT_EQ(*static_cast<float*>(model.gradient_data(1, 0)), 4);
  model.optimizer_step(0);
  EXPECT_THAT(model.weights(0), ElementsAre(-2));
}

TEST(ToyModel, RoundsToItsTypes) {
  for (const auto& [dtype, rounded] : {std::pair{COHORT_BFLOAT16, 0x1p-8}, std::pair{COHORT_FLOAT16, 0x1p-11},
                                       std::pair{COHORT_FLOAT32, 0x1p-24}, std::pair{COHORT_FLOAT64, 0x1p-53}}) {
    ToyModel model({{"w", 2, dtype}}, 0, 1.0);
    ToyState state = model.state();
    state.weights[0] = {1 + rounded, 1 + 3 * rounded};  // halfway: to even
    model.set_state(state);
    EXPECT_THAT(model.weights(0), ElementsAre(1, 1 + 4 * rounded)) << dtype;
  }
}

TEST(ToyModel, TakesItsStateBack) {
  ToyModel model({{"w", 3}}, 1.0, 0.5, 0.5);
  model.add_gradient(0, Values{1, 2, 3});
  model.optimizer_step(0);
  ToyModel other({{"w", 3}}, 7.0, 0.5, 0.5);
  other.set_state(model.state());
  EXPECT_EQ(other.state().weights, model.state().weights);
  EXPECT_EQ(other.state().momenta, model.state().momenta);
}

}  // namespace
}  // namespace cohort::toy
