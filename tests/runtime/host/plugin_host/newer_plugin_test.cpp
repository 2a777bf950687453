// Plugins that were built for a newer host than this one, which is of the ABI 1.0 here: drafts have no older hosts.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/api/collective.h>
#include <cohort/api/logger.h>
#include <cohort/api/strategy.h>

#include "plugin_host/descriptor_checks.hpp"

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kHost = 0x10000;   // 1.0
constexpr uint32_t kNewer = 0x10001;  // 1.1

// What these headers know of a struct, and a field more, which is in use.
template <class T>
struct LongerInUse {
  T known;
  uint64_t more = 1;

  explicit LongerInUse(const T& from) : known(from) { known.struct_size = sizeof(LongerInUse); }
};

struct NewerPlugin : ::testing::Test {
  cohort_strategy_vt table{};
  cohort_component component{sizeof(cohort_component),
                             COHORT_KIND_STRATEGY,
                             "ring",
                             "One line",
                             nullptr,
                             nullptr,
                             nullptr,
                             0,
                             &table,
                             nullptr};
  cohort_component unknown{};  // of a kind that comes later: the host may not look at the rest
  std::vector<const cohort_component*> components{&component, nullptr};
  cohort_plugin plugin{COHORT_PLUGIN_MAGIC,
                       sizeof(cohort_plugin),
                       kNewer,
                       kHost,
                       "org.example.ring",
                       "1.0.0",
                       nullptr,
                       nullptr,
                       components.data(),
                       nullptr,
                       nullptr};

  NewerPlugin() {
    table.struct_size = sizeof table;
    unknown.struct_size = sizeof unknown;
    unknown.kind = 9;
  }

  std::string problem(uint32_t host_abi = kHost) {
    plugin.components = components.data();
    return descriptor_problem(plugin, "ring", host_abi);
  }
};

TEST_F(NewerPlugin, IsFineWithoutAnythingNew) {
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(ignored_parts(plugin), IsEmpty());
}

TEST_F(NewerPlugin, RunsWithoutItsUnknownKinds) {
  components = {&unknown, &component, &unknown, nullptr};
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(ignored_parts(plugin), ElementsAre("a component of the kind 9", "a component of the kind 9"));
  EXPECT_EQ(component_of(plugin, COHORT_KIND_STRATEGY), &component);
  EXPECT_FALSE(is_known_kind(9));
  EXPECT_TRUE(is_known_kind(COHORT_KIND_LOGGER));
}

TEST_F(NewerPlugin, MayHaveNothingElseThanUnknownKinds) {
  components = {&unknown, nullptr};
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(ignored_parts(plugin), ElementsAre("a component of the kind 9"));
  EXPECT_EQ(component_of(plugin, COHORT_KIND_STRATEGY), nullptr);
}

TEST_F(NewerPlugin, RunsWithoutItsUnknownSlots) {
  LongerInUse<cohort_strategy_vt> longer(table);
  component.vtable = &longer;
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(ignored_parts(plugin), ElementsAre("slots of its strategy"));
  longer.more = 0;
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(ignored_parts(plugin), IsEmpty()) << "slots that it does not fill are no loss";
}

TEST_F(NewerPlugin, RunsWithoutUnknownSlotsOfAnyKind) {
  cohort_logger_vt logger{};
  logger.log_values = [](auto...) noexcept -> cohort_status { return COHORT_OK; };
  const LongerInUse<cohort_logger_vt> longer(logger);
  cohort_component second = component;
  second.kind = COHORT_KIND_LOGGER;
  second.vtable = &longer;
  components = {&component, &second, nullptr};
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(ignored_parts(plugin), ElementsAre("slots of its logger"));
}

TEST_F(NewerPlugin, RunsWithoutUnknownFieldsOfItsDescriptor) {
  LongerInUse<cohort_component> longer_component(component);
  components = {&longer_component.known, nullptr};
  plugin.components = components.data();
  LongerInUse<cohort_plugin> longer(plugin);
  EXPECT_EQ(descriptor_problem(longer.known, "ring", kHost), "");
  EXPECT_THAT(ignored_parts(longer.known),
              ElementsAre("fields of its cohort_plugin", "fields of the cohort_component of its strategy"));
  longer.more = 0;
  EXPECT_THAT(ignored_parts(longer.known), ElementsAre("fields of the cohort_component of its strategy"));
  longer_component.more = 0;
  EXPECT_THAT(ignored_parts(longer.known), IsEmpty()) << "fields that it does not set are no loss";
}

TEST_F(NewerPlugin, IsRefusedForUnknownFlags) {
  table.flags = 1u << 30;
  EXPECT_THAT(problem(), HasSubstr("its strategy sets the flags 0x40000000 of its cohort_strategy_vt"));
  table.flags = 0;
  cohort_option option{"bits", "int", "8", "Bits of the code", nullptr, 1u << 30, 0};
  component.options = &option;
  component.num_options = 1;
  EXPECT_THAT(problem(), HasSubstr("the option 'bits' sets flags that this cohort does not know"));
}

TEST_F(NewerPlugin, IsRefusedForNeedsOfANewerHost) {
  plugin.abi_required = kNewer;
  EXPECT_THAT(problem(), AllOf(HasSubstr("it was built for plugin ABI 1.1 and needs 1.1"),
                               HasSubstr("with plugin ABI 1.0; update cohort, or build the plugin with the headers")));
  EXPECT_EQ(problem(kNewer), "");
}

TEST_F(NewerPlugin, NeedsWhatEveryVersionHas) {
  table.struct_size = COHORT_STRATEGY_VT_SIZE_1_0 - 8;
  EXPECT_THAT(problem(), HasSubstr("set its struct_size to sizeof(cohort_strategy_vt)"));
  cohort_collective_vt collective{};
  collective.struct_size = sizeof collective;
  component.kind = COHORT_KIND_COLLECTIVE;
  component.vtable = &collective;
  EXPECT_THAT(problem(), HasSubstr("its collective lacks the required function connect"));
}

// It has nothing to say about hosts that are older than it is.
TEST_F(NewerPlugin, IsNoneOfTheHostsOwnVersion) {
  plugin.abi_built = kHost;
  LongerInUse<cohort_strategy_vt> longer(table);
  component.vtable = &longer;
  EXPECT_THAT(problem(), HasSubstr("its strategy sets byte " + std::to_string(sizeof(cohort_strategy_vt))));
  component.vtable = &table;
  components = {&component, &unknown, nullptr};
  EXPECT_THAT(problem(), HasSubstr("unknown kind 9"));
}

TEST_F(NewerPlugin, OfTheHostsMajorVersionMayBeOlder) {
  plugin.abi_built = plugin.abi_required = kHost;
  EXPECT_EQ(problem(kNewer), "");
}

}  // namespace
}  // namespace cohort::host
