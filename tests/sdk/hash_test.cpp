#include <cohort/sdk/hash.hpp>

#include <gtest/gtest.h>

namespace {

using cohort::sdk::Hash;

constexpr uint64_t kTop = uint64_t{1} << 63;

TEST(Hash, DependsOnTheOrderOfWords) {
  EXPECT_NE(Hash({1, 2}).value(), Hash({2, 1}).value());
  EXPECT_NE(Hash({0}).value(), Hash().value());
}

TEST(Hash, LowBitsDependOnTopBits) {
  EXPECT_NE(Hash({kTop}).value() & 0xffffffffu, Hash({0}).value() & 0xffffffffu);
  EXPECT_NE(Hash({kTop, kTop}).value(), Hash({0, 0}).value());
}

TEST(Hash, TakesBytesAsWords) {
  const uint64_t words[] = {3, 5, 7};
  Hash whole, cut;
  whole.add(words, sizeof words);
  EXPECT_EQ(whole.value(), Hash({3, 5, 7}).value());
  cut.add(words, 2 * sizeof(uint64_t) + 1);
  EXPECT_EQ(cut.value(), whole.value()) << "7 fits into one byte";
}

}  // namespace
