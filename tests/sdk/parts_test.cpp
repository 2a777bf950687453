#include <cohort/sdk/parts.hpp>

#include <cstring>

#include <gmock/gmock.h>

#include "fake_host.hpp"
#include "fake_strategy.hpp"

namespace {

using cohort::test::FakeHost;
using cohort::test::LayerOver;
using cohort::test::RecordingBase;
using testing::ElementsAre;

// As many parts as devices; each begins at the unit of its number.
class Even : public cohort::sdk::StrategyInParts<Even> {
 public:
  void plan(const cohort_job& job, cohort_plan& plan) {
    below().plan(job, plan);
    parts_ = static_cast<uint32_t>(job.num_devices);
  }
  uint32_t num_parts() const { return parts_; }
  bool runs_forward_first() const { return true; }
  void cut(const cohort_cut_args& args) const {
    if (args.num_units < args.num_parts) throw cohort::sdk::invalid_argument("too few units");
    for (uint32_t part = 0; part < args.num_parts; ++part) args.first_units[part] = part;
  }

 private:
  uint32_t parts_ = 0;
};

class Plain : public cohort::sdk::StrategyInParts<Plain> {
 public:
  uint32_t num_parts() const { return 1; }
  void cut(const cohort_cut_args&) const {}
};

template <class D>
class Layer {
 public:
  Layer() { layer_.create(); }
  const void* extension(const char* id) { return layer_.vt().get_extension(layer_.get(), id); }
  const cohort_parts_1& table() { return *static_cast<const cohort_parts_1*>(extension(COHORT_PARTS_ID)); }
  void plan(int devices) {
    cohort_job job{};
    job.struct_size = sizeof job;
    job.num_devices = devices;
    cohort_plan plan{};
    EXPECT_EQ(layer_.vt().plan(layer_.get(), &job, &plan), COHORT_OK);
  }
  FakeHost& host() { return host_; }
  RecordingBase& base() { return base_; }

 private:
  FakeHost host_;
  RecordingBase base_;
  LayerOver layer_{cohort::sdk::detail::kStrategyTable<D>, base_, host_.raw()};
};

TEST(StrategyInParts, OffersATableThatFollowsThePlan) {
  Layer<Even> even;
  EXPECT_EQ(even.table().num_parts, 0u);
  even.plan(3);
  EXPECT_EQ(even.table().num_parts, 3u);
  EXPECT_EQ(even.table().flags, COHORT_PARTS_FORWARD_FIRST);
  EXPECT_EQ(even.table().struct_size, sizeof(cohort_parts_1));
  EXPECT_EQ(Layer<Plain>().table().flags, 0u);
}

TEST(StrategyInParts, AsksTheLayersBelowForOtherExtensions) {
  Layer<Even> even;
  EXPECT_EQ(even.extension("other/1"), nullptr);
  EXPECT_EQ(even.base().calls.back(), "get_extension");
}

TEST(StrategyInParts, GivesTheMessageOfACutThatFails) {
  Layer<Even> even;
  even.plan(2);
  const cohort_unit units[2]{};
  uint32_t first_units[2]{9, 9};
  cohort_cut_args args{};
  args.struct_size = sizeof args;
  args.num_parts = 2;
  args.units = units;
  args.num_units = 2;
  args.first_units = first_units;
  const cohort_parts_1& table = even.table();
  EXPECT_EQ(table.cut(table.data, &args), COHORT_OK);
  EXPECT_THAT(first_units, ElementsAre(0u, 1u));
  args.num_units = 1;
  EXPECT_EQ(table.cut(table.data, &args), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(even.host().take_failure(), "too few units");
}

}  // namespace
