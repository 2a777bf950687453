// Models of all types and sizes, in buckets of all sizes.
#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

// All ranks end with the same, and where an exact strategy leads.
void expect_training(const Shape& shape, const Net& net, int steps) {
  const auto backward = backward_of(net, shape);
  const auto by_rank = trained(shape, net, backward, steps);
  expect_equal(net, by_rank);
  if (!subject().given().is_exact) return;
  Reference reference(net, shape);
  for (int step = 0; step < steps; ++step) reference.step(backward, step);
  EXPECT_EQ(reference.difference_to(by_rank[0]), "");
}

COHORT_ON_SHAPES(Sizes, all_shapes());

TEST_P(Sizes, OfElementsMayBeMixed) {
  Net net{{{"half", 9, COHORT_BFLOAT16},
           {"single", 31},
           {"one_half", 1, COHORT_BFLOAT16},
           {"double", 5, COHORT_FLOAT64},
           {"one_double", 1, COHORT_FLOAT64},
           {"one", 1}},
          0.5};
  expect_training(shape(), net, 3);
  net.bucket_size = 1;
  expect_training(shape(), net, 3);
}

TEST_P(Sizes, OfBucketsDoNotMatter) {
  Net net = small_net();
  for (const uint64_t size : {uint64_t{1}, uint64_t{100}, uint64_t{1} << 40}) {
    net.bucket_size = size;
    expect_training(shape(), net, 3);
  }
}

TEST_P(Sizes, OfParametersMayBeLargerThanABucket) {
  constexpr uint64_t kNumel = 300'007;
  Net net{{{"small", 3}, {"large", kNumel}, {"last", 1}}};
  expect_training(shape(), net, 2);
  net.bucket_size = 4096;
  expect_training(shape(), net, 2);
}

TEST_P(Sizes, OfOneElementMayBeMany) {
  Net net;
  for (int i = 0; i < 300; ++i) net.parameters.push_back({"p" + std::to_string(i), 1});
  net.bucket_size = 64;
  expect_training(shape(), net, 2);
}

TEST_P(Sizes, OfModelsMayBeOneElement) {
  expect_training(shape(), {{{"only", 1}}}, 3);
}

TEST_P(Sizes, OfParametersMayBeNothing) {
  expect_training(shape(), {{{"a", 3}, {"empty", 0}, {"b", 2}}}, 2);
}

TEST_P(Sizes, OfModelsMayBeNothingToTrain) {
  const Net frozen{{{"a", 3, COHORT_FLOAT32, false}, {"b", 2, COHORT_FLOAT64, false}}};
  for (const Net& net : {frozen, Net{}}) {
    for (const Weights& weights : trained(shape(), net, backward_of(net, shape()), 2)) {
      EXPECT_EQ(difference(net, first_weights(net, 0), weights), "");
    }
  }
}

}  // namespace
