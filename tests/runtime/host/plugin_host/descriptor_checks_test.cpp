// Each test breaks one thing in a descriptor that is right.
#include "plugin_host/descriptor_checks.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/api/accelerator.h>
#include <cohort/api/collective.h>
#include <cohort/api/logger.h>
#include <cohort/api/strategy.h>

namespace cohort::host {
namespace {

using ::testing::HasSubstr;

struct DescriptorTest : ::testing::Test {
  cohort_strategy_vt strategy_table{};
  cohort_collective_vt collective_table{};
  cohort_accelerator_vt accelerator_table{};
  cohort_logger_vt logger_table{};
  std::vector<const char*> variants{"plain", "fancy", nullptr};
  std::vector<cohort_option> options{{"bits", "int[1..8]", "8", "Bits of the code", nullptr, 0, 0},
                                     {"note", "string", "", "Anything", nullptr, 0, 0}};
  cohort_component component{sizeof(cohort_component), COHORT_KIND_STRATEGY, "ring", "One line",      nullptr,
                             variants.data(),          options.data(),       2,      &strategy_table, nullptr};
  std::vector<const cohort_component*> components{&component, nullptr};
  cohort_plugin plugin{COHORT_PLUGIN_MAGIC,
                       sizeof(cohort_plugin),
                       COHORT_ABI_VERSION,
                       COHORT_ABI_VERSION,
                       "org.example.ring",
                       "1.0.0",
                       "",
                       "MIT",
                       components.data(),
                       nullptr,
                       nullptr};

  DescriptorTest() { strategy_table.struct_size = sizeof strategy_table; }

  std::string problem() {
    plugin.components = components.data();
    return descriptor_problem(plugin, "ring");
  }
};

TEST_F(DescriptorTest, IsFineAsItIs) {
  EXPECT_EQ(problem(), "");
}

TEST_F(DescriptorTest, NeedsItsMagic) {
  plugin.magic = 0;
  EXPECT_THAT(problem(), HasSubstr("COHORT_PLUGIN_MAGIC"));
}

TEST_F(DescriptorTest, MustBeLongEnough) {
  plugin.struct_size = 8;
  EXPECT_THAT(problem(), HasSubstr("only 8 bytes long"));
  plugin.struct_size = sizeof(cohort_plugin) - 8;
  EXPECT_THAT(problem(), HasSubstr("set its struct_size to sizeof(cohort_plugin)"));
}

TEST_F(DescriptorTest, IsComparedByAbiBeforeItsLength) {
  plugin.struct_size = COHORT_END(cohort_plugin, abi_required);
  plugin.abi_built = COHORT_ABI_VERSION - 1;
  EXPECT_THAT(problem(), HasSubstr("rebuild it with the headers"));
}

TEST_F(DescriptorTest, OfADraftMustHaveTheVeryAbiOfTheHost) {
  plugin.abi_built = COHORT_ABI_VERSION - 1;
  plugin.abi_required = COHORT_ABI_VERSION - 1;
  EXPECT_THAT(problem(), HasSubstr("built for plugin ABI 0.1 and needs 0.1"));
  EXPECT_THAT(problem(), HasSubstr("with plugin ABI 0.2; rebuild it with the headers of cohort"));
  plugin.abi_built = COHORT_ABI_VERSION;
  plugin.abi_required = COHORT_ABI_VERSION + 1;
  EXPECT_THAT(problem(), HasSubstr("needs 0.3"));
  EXPECT_THAT(problem(), HasSubstr("update cohort, or build the plugin with the headers of cohort 0.1.0"));
}

TEST_F(DescriptorTest, NeedsIdAndVersion) {
  for (const char* cohort_plugin::*field : {&cohort_plugin::id, &cohort_plugin::version}) {
    const char* const before = std::exchange(plugin.*field, nullptr);
    EXPECT_THAT(problem(), HasSubstr("lacks")) << before;
    plugin.*field = before;
  }
}

TEST_F(DescriptorTest, NeedsNeitherVendorNorLicense) {
  plugin.vendor = nullptr;
  plugin.license = nullptr;
  EXPECT_EQ(problem(), "");
}

TEST_F(DescriptorTest, NeedsAComponentOfAKnownKind) {
  component.kind = 9;
  EXPECT_THAT(problem(), HasSubstr("unknown kind 9"));
  components = {nullptr};
  EXPECT_THAT(problem(), HasSubstr("no components"));
}

TEST_F(DescriptorTest, HoldsOneComponentOfAKind) {
  components = {&component, &component, nullptr};
  EXPECT_THAT(problem(), HasSubstr("more than one component of the kind strategy"));
}

TEST_F(DescriptorTest, NamesEveryComponentAsTheFile) {
  component.name = "tree";
  EXPECT_THAT(problem(), HasSubstr("named 'tree', but its file says 'ring'"));
  component.name = nullptr;
  EXPECT_THAT(problem(), HasSubstr("named '(null)'"));
}

TEST_F(DescriptorTest, CannotHaveANameOfTheRuntime) {
  for (const std::string name : {"base", "program"}) {
    component.name = name.c_str();
    plugin.components = components.data();
    EXPECT_THAT(descriptor_problem(plugin, name), HasSubstr("is named '" + name + "', which is the runtime's own"));
  }
}

TEST_F(DescriptorTest, NeedsASummaryOfOneLine) {
  for (const char* summary : {static_cast<const char*>(nullptr), "", "two\nlines"}) {
    component.summary = summary;
    EXPECT_THAT(problem(), HasSubstr("lacks its summary"));
  }
}

TEST_F(DescriptorTest, InheritsFromANameOnlyIfItIsAStrategy) {
  component.inherits = "*";
  EXPECT_EQ(problem(), "");
  component.inherits = "../x";
  EXPECT_THAT(problem(), HasSubstr("inherits from '../x', which is no name"));
  component.inherits = "tree";
  EXPECT_EQ(problem(), "");
  component.kind = COHORT_KIND_COLLECTIVE;
  EXPECT_THAT(problem(), HasSubstr("only strategies can"));
}

TEST_F(DescriptorTest, DeclaresVariantsOnceEachAndByName) {
  variants[1] = "plain";
  EXPECT_THAT(problem(), HasSubstr("variant 'plain' twice"));
  variants[1] = "Plain";
  EXPECT_THAT(problem(), HasSubstr("variant 'Plain'"));
}

TEST_F(DescriptorTest, DeclaresOptionsOnceEachAndWellFormed) {
  options[1].key = "bits";
  EXPECT_THAT(problem(), HasSubstr("option 'bits' twice"));
  options[1] = {"note", "text", "", "Anything", nullptr, 0, 0};
  EXPECT_THAT(problem(), HasSubstr("'text' is not an option type"));
  component.options = nullptr;
  EXPECT_THAT(problem(), HasSubstr("check num_options"));
  component.options = options.data();
  component.num_options = uint64_t{1} << 60;
  EXPECT_THAT(problem(), HasSubstr("check num_options"));
}

TEST_F(DescriptorTest, HasOptionsOfItsOwnVariants) {
  options[0].variants = "plain|fancy";
  EXPECT_EQ(problem(), "");
  options[0].variants = "plain|fanciest";
  EXPECT_THAT(problem(), HasSubstr("has the option 'bits' for the variant 'fanciest', which it does not declare"));
}

TEST_F(DescriptorTest, HasOptionsWithFlagsThatTheHostKnows) {
  options[0].flags = 1u << 20;
  EXPECT_THAT(problem(), HasSubstr("the option 'bits' sets flags that this cohort does not know; clear them"));
  options[0].flags = COHORT_OPTION_DEPRECATED;
  EXPECT_EQ(problem(), "");
  options[0].reserved0 = 1;
  EXPECT_THAT(problem(), HasSubstr("the option 'bits' sets its reserved field"));
}

TEST_F(DescriptorTest, NeedsTheRequiredFunctions) {
  component.vtable = nullptr;
  EXPECT_THAT(problem(), HasSubstr("has no vtable"));
  collective_table.struct_size = sizeof(collective_table);
  component.kind = COHORT_KIND_COLLECTIVE;
  component.vtable = &collective_table;
  EXPECT_THAT(problem(), HasSubstr("required function connect"));
  accelerator_table.struct_size = sizeof(accelerator_table);
  component.kind = COHORT_KIND_ACCELERATOR;
  component.vtable = &accelerator_table;
  EXPECT_THAT(problem(), HasSubstr("required function device_count"));
  logger_table.struct_size = sizeof(logger_table);
  component.kind = COHORT_KIND_LOGGER;
  component.vtable = &logger_table;
  EXPECT_THAT(problem(), HasSubstr("required function log_values"));
}

TEST_F(DescriptorTest, OfAnAcceleratorNeedsNoNameOfLibTorch) {
  accelerator_table.struct_size = sizeof(accelerator_table);
  accelerator_table.torch_device_type = nullptr;
  accelerator_table.device_count = [](auto...) noexcept -> cohort_status { return COHORT_OK; };
  component.kind = COHORT_KIND_ACCELERATOR;
  component.vtable = &accelerator_table;
  EXPECT_EQ(problem(), "");
}

// What these headers know of a struct, and a slot more.
template <class T>
struct Longer {
  T known;
  uint64_t more = 0;

  explicit Longer(const T& from) : known(from) { known.struct_size = sizeof(Longer); }
};

TEST_F(DescriptorTest, MayBeLongerIfTheRestIsZero) {
  Longer<cohort_plugin> longer(plugin);
  Longer<cohort_component> longer_component(component);
  Longer<cohort_strategy_vt> longer_table(strategy_table);
  longer_component.known.vtable = &longer_table;
  components[0] = &longer_component.known;
  const auto problem_of_longer = [&] {
    longer.known.components = components.data();
    return descriptor_problem(longer.known, "ring");
  };
  EXPECT_EQ(problem_of_longer(), "");
  longer_table.more = 1;
  EXPECT_THAT(problem_of_longer(),
              ::testing::AllOf(HasSubstr("its strategy sets byte " + std::to_string(sizeof(cohort_strategy_vt))),
                               HasSubstr("of its cohort_strategy_vt, of which this cohort knows")));
  longer_table.more = 0;
  longer_component.more = 1;
  EXPECT_THAT(problem_of_longer(), HasSubstr("it sets byte " + std::to_string(sizeof(cohort_component))));
  longer_component.more = 0;
  longer.more = 1;
  EXPECT_THAT(problem_of_longer(), HasSubstr("of its cohort_plugin, of which this cohort knows"));
}

TEST_F(DescriptorTest, HasComponentsOfThatLength) {
  for (const uint32_t size : {0u, COHORT_COMPONENT_SIZE_1_0 - 8, 1u << 20}) {
    component.struct_size = size;
    EXPECT_THAT(problem(), HasSubstr("set its struct_size to sizeof(cohort_component)")) << size;
  }
}

TEST_F(DescriptorTest, HasTablesThatEndWithASlot) {
  strategy_table.struct_size = COHORT_END(cohort_strategy_vt, plan) - 3;
  EXPECT_THAT(problem(), HasSubstr("which end within a slot; set its struct_size to sizeof(cohort_strategy_vt)"));
  strategy_table.struct_size = sizeof strategy_table;
  EXPECT_EQ(problem(), "");
}

// Fills a table with the fewest slots that make it right.
void fill(cohort_strategy_vt&) {}
void fill(cohort_collective_vt& table) {
  table.connect = [](auto...) noexcept { return COHORT_OK; };
  table.exchange = [](auto...) noexcept { return COHORT_OK; };
}
void fill(cohort_accelerator_vt& table) {
  table.device_count = [](auto...) noexcept -> cohort_status { return COHORT_OK; };
}
void fill(cohort_logger_vt& table) {
  table.log_values = [](auto...) noexcept -> cohort_status { return COHORT_OK; };
}

TEST_F(DescriptorTest, HasTablesAsLongAsInTheFirstVersion) {
  const auto try_table = [&](int32_t kind, auto& table, uint32_t least, const std::string& type) {
    fill(table);
    component.kind = kind;
    component.vtable = &table;
    table.struct_size = least;
    EXPECT_EQ(problem(), "") << type;
    for (const uint32_t size : {0u, 8u, 16u, least - 8}) {
      table.struct_size = size;
      EXPECT_THAT(problem(), HasSubstr(" of " + std::to_string(size) + " bytes; set its struct_size to sizeof(" + type))
          << size;
    }
  };
  try_table(COHORT_KIND_STRATEGY, strategy_table, COHORT_STRATEGY_VT_SIZE_1_0, "cohort_strategy_vt");
  try_table(COHORT_KIND_COLLECTIVE, collective_table, COHORT_COLLECTIVE_VT_SIZE_1_0, "cohort_collective_vt");
  try_table(COHORT_KIND_ACCELERATOR, accelerator_table, COHORT_ACCELERATOR_VT_SIZE_1_0, "cohort_accelerator_vt");
  try_table(COHORT_KIND_LOGGER, logger_table, COHORT_LOGGER_VT_SIZE_1_0, "cohort_logger_vt");
}

TEST_F(DescriptorTest, HasFlagsThatTheHostKnows) {
  strategy_table.flags = 1u << 30;
  EXPECT_THAT(problem(),
              HasSubstr("its strategy sets the flags 0x40000000 of its cohort_strategy_vt, which this cohort "
                        "does not know; update cohort, or clear them"));
  collective_table.struct_size = sizeof collective_table;
  collective_table.flags = COHORT_COLLECTIVE_RANK_ORDERED | 1u << 30;
  collective_table.connect = [](auto...) noexcept { return COHORT_OK; };
  collective_table.exchange = [](auto...) noexcept { return COHORT_OK; };
  component.kind = COHORT_KIND_COLLECTIVE;
  component.vtable = &collective_table;
  EXPECT_THAT(problem(), HasSubstr("its collective sets the flags 0x40000000 of its cohort_collective_vt"));
  collective_table.flags = COHORT_COLLECTIVE_RANK_ORDERED;
  EXPECT_EQ(problem(), "");
}

TEST_F(DescriptorTest, OfAnAcceleratorStagesWholeOrNotAtAll) {
  component.kind = COHORT_KIND_ACCELERATOR;
  component.vtable = &accelerator_table;
  accelerator_table.struct_size = sizeof accelerator_table;
  accelerator_table.torch_device_type = "xpu";
  accelerator_table.device_count = [](auto...) noexcept -> int32_t { return 1; };
  EXPECT_EQ(problem(), "");
  accelerator_table.alloc_pinned = [](auto...) noexcept -> cohort_status { return COHORT_OK; };
  EXPECT_THAT(problem(), HasSubstr("set all five or none"));
  accelerator_table.free_pinned = [](auto...) noexcept {};
  accelerator_table.copy_to_host = [](auto...) noexcept -> cohort_status { return COHORT_OK; };
  accelerator_table.copy_to_device = [](auto...) noexcept -> cohort_status { return COHORT_OK; };
  accelerator_table.wait = [](auto...) noexcept -> cohort_status { return COHORT_OK; };
  EXPECT_EQ(problem(), "");
  accelerator_table.wait = nullptr;
  EXPECT_THAT(problem(), HasSubstr("set all five or none"));
}

TEST_F(DescriptorTest, OfACollectiveHasMemoryWithASplit) {
  collective_table.struct_size = sizeof collective_table;
  collective_table.connect = [](auto...) noexcept { return COHORT_OK; };
  collective_table.exchange = [](auto...) noexcept { return COHORT_OK; };
  collective_table.alloc = [](auto...) noexcept { return COHORT_OK; };
  collective_table.release = [](auto...) noexcept {};
  component.kind = COHORT_KIND_COLLECTIVE;
  component.vtable = &collective_table;
  EXPECT_THAT(problem(), HasSubstr("has alloc without split or release; set all three or none"));
  collective_table.split = [](auto...) noexcept { return COHORT_OK; };
  EXPECT_EQ(problem(), "");
}

}  // namespace
}  // namespace cohort::host
