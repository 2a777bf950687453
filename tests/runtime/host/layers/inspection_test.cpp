// Which layer is named for damage, and for an extension that nobody knows.
#include <cohort/host/strategy_layers.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>

namespace cohort::host {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Memory {
  std::string damage;
};

Memory& memory_of(cohort_strategy* s) {
  while (s->below) s = s->below;
  return *static_cast<Memory*>(s->data);
}

cohort_strategy_vt base_with_end_step() {
  cohort_strategy_vt base{};
  base.struct_size = sizeof base;
  base.end_step = [](cohort_strategy*, const cohort_step*) noexcept -> cohort_status { return COHORT_OK; };
  base.configure_model = [](cohort_strategy*) noexcept -> cohort_status { return COHORT_OK; };
  base.get_extension = [](cohort_strategy*, const char*) noexcept -> const void* { return nullptr; };
  return base;
}

cohort_status damage_and_go_on(cohort_strategy* s, const cohort_step* step) noexcept {
  memory_of(s).damage = "STATE 'x' of bucket 3";
  return s->below->vt->end_step(s->below, step);
}

cohort_status go_on_and_damage(cohort_strategy* s, const cohort_step* step) noexcept {
  const cohort_status status = s->below->vt->end_step(s->below, step);
  memory_of(s).damage = "STATE 'x' of bucket 3";
  return status;
}

struct Inspection : ::testing::Test {
  Log log{LogSettings{}};
  HostObject host{log};
  Memory memory;
  cohort_strategy_vt lower{}, upper{};

  Inspection() { lower.struct_size = upper.struct_size = sizeof lower; }

  StrategyLayers stack(bool inspects = true) {
    std::vector<LayerBlueprint> two;
    two.push_back({"lower", &lower, {}, ""});
    two.push_back({"upper", &upper, {}, ""});
    host::Inspection inspect;
    if (inspects) inspect = [this] { return memory.damage; };
    return {std::move(two), base_with_end_step(), &memory, host, std::move(inspect)};
  }
  std::string failure_of_end_step(bool inspects = true) {
    const StrategyLayers layers = stack(inspects);
    const cohort_status status = layers.top()->vt->end_step(layers.top(), nullptr);
    return status == COHORT_OK ? "" : host.take_message(status);
  }
  std::string refusal() {
    try {
      stack().check_extensions();
      return "";
    } catch (const PluginRefused& error) {
      return error.what();
    }
  }
};

TEST_F(Inspection, PassesWhatDoesNoDamage) {
  EXPECT_EQ(failure_of_end_step(), "");
}

TEST_F(Inspection, NamesTheLayerOfDamageBeforeBelow) {
  upper.end_step = damage_and_go_on;
  EXPECT_EQ(failure_of_end_step(),
            "layer 'upper', end_step: memory behind STATE 'x' of bucket 3 has changed; a view ends after the numel of "
            "its bucket");
}

TEST_F(Inspection, NamesTheLayerOfDamageBehindBelow) {
  upper.end_step = go_on_and_damage;
  EXPECT_THAT(failure_of_end_step(), StartsWith("layer 'upper', end_step: "));
}

TEST_F(Inspection, NamesTheLowerOfTwoLayers) {
  for (auto* const damages : {damage_and_go_on, go_on_and_damage}) {
    memory.damage = "";
    lower.end_step = damages;
    EXPECT_THAT(failure_of_end_step(), StartsWith("layer 'lower', end_step: "));
  }
}

TEST_F(Inspection, BlamesNoLayerForDamageBetweenSlots) {
  memory.damage = "GRAD of bucket 0";
  EXPECT_THAT(failure_of_end_step(), StartsWith("a task of a lane, or the program, before end_step: "));
}

TEST_F(Inspection, IsLeftOutUnlessItIsAskedFor) {
  upper.end_step = damage_and_go_on;
  EXPECT_EQ(failure_of_end_step(/*inspects=*/false), "");
}

TEST_F(Inspection, RefusesALayerThatAnswersAnyExtension) {
  static constexpr int kTable = 0;
  lower.get_extension = [](cohort_strategy*, const char*) noexcept -> const void* { return &kTable; };
  EXPECT_EQ(refusal(),
            "layer 'lower' answers the unknown extension 'cohort.no_such_extension/1'; its get_extension must return "
            "null for ids that it does not know");
}

TEST_F(Inspection, AcceptsALayerThatAnswersItsOwnExtensions) {
  upper.get_extension = [](cohort_strategy* s, const char* id) noexcept -> const void* {
    static constexpr int kTable = 0;
    return std::string(id) == "org.example.own/1" ? &kTable : s->below->vt->get_extension(s->below, id);
  };
  EXPECT_EQ(refusal(), "");
}

TEST_F(Inspection, NamesTheLastConfiguredLayer) {
  upper.configure_model = [](cohort_strategy* s) noexcept { return s->below->vt->configure_model(s->below); };
  lower.configure_model = [](cohort_strategy*) noexcept -> cohort_status { return COHORT_OK; };
  StrategyLayers layers = stack();
  EXPECT_EQ(layers.configure_model(), COHORT_OK);
  EXPECT_EQ(layers.last_configured(), "lower");
}

}  // namespace
}  // namespace cohort::host
