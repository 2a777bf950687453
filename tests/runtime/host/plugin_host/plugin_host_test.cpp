// Opening plugins: what comes out of a good one, and the sentence for each way in which one can be wrong.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/api/strategy.h>
#include <cohort/host/crash_report.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/in_child.hpp>
#include <cohort/host/plugin_host.hpp>

namespace cohort::host {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct PluginHostTest : ::testing::Test {
  Log log{LogSettings{}};
  PluginHost plugins{PluginSearch{{}, {TEST_PLUGIN_FOLDER}}, log};

  // Both kinds of exception count, so that a wrong one shows in the message.
  std::string refusal(std::string_view name, Kind kind = Kind::kStrategy) {
    try {
      plugins.open(kind, name);
    } catch (const PluginRefused& error) {
      return std::string("refused: ") + error.what();
    } catch (const UserError& error) {
      return std::string("user: ") + error.what();
    }
    return "opened";
  }
};

int counter(const cohort_strategy_vt& table, const char* id) {
  return *static_cast<const int32_t*>(table.get_extension(nullptr, id));
}
int counter(const cohort_component& component, const char* id) {
  return counter(*static_cast<const cohort_strategy_vt*>(component.vtable), id);
}

TEST_F(PluginHostTest, OpensAGoodPluginOnce) {
  ::testing::internal::CaptureStderr();
  const cohort_component& component = plugins.open(Kind::kStrategy, "good");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: good was initialised\n");
  EXPECT_STREQ(component.name, "good");
  EXPECT_EQ(&plugins.open(Kind::kStrategy, "good"), &component);
  ASSERT_EQ(plugins.loaded().size(), 1u);
  EXPECT_EQ(plugins.loaded()[0].file, fs::path(TEST_PLUGIN_FOLDER) / "cohort_good.so");
  EXPECT_STREQ(plugins.loaded()[0].descriptor->version, "1.0.0");
  EXPECT_THAT(plugins.loaded()[0].content_hash, MatchesRegex("[0-9a-f]{16}"));
}

TEST_F(PluginHostTest, ReadsDescriptorsOfOtherLengthsInItsOwn) {
  const cohort_component& component = plugins.open(Kind::kStrategy, "other_lengths");
  EXPECT_EQ(component.struct_size, sizeof component);
  EXPECT_STREQ(component.summary, "A strategy for tests");
  EXPECT_EQ(plugins.loaded()[0].descriptor->struct_size, sizeof(cohort_plugin));
  EXPECT_EQ(plugins.loaded()[0].descriptor->components[0], &component);
  const auto& table = *static_cast<const cohort_strategy_vt*>(component.vtable);
  EXPECT_GT(table.struct_size, sizeof table);
}

TEST_F(PluginHostTest, CallsFiniAtItsEndAndKeepsThePluginMapped) {
  const cohort_strategy_vt* table = nullptr;  // the plugin's own, which it keeps while it is mapped
  int fini_calls = 0;
  {
    PluginHost other(PluginSearch{{}, {TEST_PLUGIN_FOLDER}}, log);
    table = static_cast<const cohort_strategy_vt*>(other.open(Kind::kStrategy, "good").vtable);
    fini_calls = counter(*table, "fini-calls");
  }
  EXPECT_EQ(counter(*table, "fini-calls"), fini_calls + 1);
}

TEST_F(PluginHostTest, TriesInitInAnotherProcessSoThatItRunsHereOnce) {
  const cohort_component& component = plugins.open(Kind::kStrategy, "good");
  const int before = counter(component, "init-calls");
  PluginHost other(PluginSearch{{}, {TEST_PLUGIN_FOLDER}}, log);
  EXPECT_EQ(counter(other.open(Kind::kStrategy, "good"), "init-calls"), before + 1);
}

TEST_F(PluginHostTest, TellsKindsOfTheSameNameApart) {
  EXPECT_EQ(plugins.open(Kind::kStrategy, "two_kinds").kind, COHORT_KIND_STRATEGY);
  EXPECT_EQ(plugins.open(Kind::kAccelerator, "two_kinds").kind, COHORT_KIND_ACCELERATOR);
  EXPECT_EQ(plugins.loaded().size(), 1u);
  EXPECT_EQ(plugins.find(Kind::kCollective, "two_kinds"), nullptr);
}

TEST_F(PluginHostTest, FindsNullForANameThatNoFileHas) {
  EXPECT_EQ(plugins.find(Kind::kStrategy, "nowhere"), nullptr);
  EXPECT_NE(plugins.find(Kind::kStrategy, "good"), nullptr);
}

TEST_F(PluginHostTest, SaysWhichKindAFileHoldsInstead) {
  EXPECT_THAT(refusal("good", Kind::kCollective),
              AllOf(HasSubstr("user: there is no collective 'good'"), HasSubstr("holds a strategy"),
                    HasSubstr("use --strategy=good")));
}

TEST_F(PluginHostTest, OffersTheNearestNameAndTheSearchTrace) {
  EXPECT_THAT(refusal("godo"), AllOf(HasSubstr("user: there is no strategy 'godo'; did you mean 'good'?"),
                                     HasSubstr("cohort_godo.so was looked for in\n  " TEST_PLUGIN_FOLDER)));
}

TEST_F(PluginHostTest, AnswersAForeignStrategyWithTheNearest) {
  for (const char* name : {"fsdp", "fsdp_native", "deepspeed", "deepspeed_stage_2"}) {
    EXPECT_THAT(refusal(name), AllOf(HasSubstr("there is no strategy"), HasSubstr("--strategy=sharded is nearest")))
        << name;
  }
  EXPECT_THAT(refusal("ddp_find_unused_parameters_true"), HasSubstr("--strategy=ddp needs no such setting"));
  EXPECT_THAT(refusal("ddp_notebook"), HasSubstr("--strategy=ddp_spawn"));
}

TEST_F(PluginHostTest, TouchesNoFileForANameThatIsNone) {
  for (const std::string_view name : {"", "../good", "/etc/passwd", "Good", "good.so"}) {
    EXPECT_THAT(refusal(name), HasSubstr("user: '" + std::string(name) + "' is not the name of a strategy"));
    EXPECT_THROW(plugins.find(Kind::kStrategy, name), UserError);
  }
}

struct Refusal {
  std::string_view name;
  std::string_view reason;
};
void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

struct WrongPlugin : PluginHostTest, ::testing::WithParamInterface<Refusal> {};

TEST_P(WrongPlugin, IsRefusedWithItsReason) {
  const std::string file = "/cohort_" + std::string(GetParam().name) + ".so' is refused: ";
  EXPECT_THAT(refusal(GetParam().name),
              AllOf(HasSubstr("refused: plugin file '" TEST_PLUGIN_FOLDER + file), HasSubstr(GetParam().reason)));
  EXPECT_TRUE(plugins.loaded().empty());
}

INSTANTIATE_TEST_SUITE_P(
    PluginHost, WrongPlugin,
    ::testing::Values(
        Refusal{"no_symbol", "it exports no symbol cohort_plugin_0"},
        Refusal{"next_major", "it exports cohort_plugin_1 and not cohort_plugin_0, which cohort 0.1.0 looks for"},
        Refusal{"foreign_symbol", "its symbol cohort_plugin_0 comes from '" TEST_PLUGIN_FOLDER "/cohort_good.so'"},
        Refusal{"newer_abi",
                "built for plugin ABI 0.8 and needs 0.8, but this is cohort 0.1.0 with plugin ABI 0.2; "
                "update cohort, or build the plugin with the headers of cohort 0.1.0"},
        Refusal{"wrong_magic", "does not begin with COHORT_PLUGIN_MAGIC"},
        Refusal{"no_components", "its descriptor lists no components"},
        Refusal{"wrong_name", "its strategy is named 'another_name', but its file says 'wrong_name'"},
        Refusal{"longer_table", "its strategy sets byte"},
        Refusal{"unknown_flags", "its strategy sets the flags 0x80000000 of its cohort_strategy_vt"},
        Refusal{"needs_missing", "the dynamic linker cannot open it (undefined symbol: symbol_that_nobody_defines)"},
        Refusal{"fails_in_init", "its init failed: the fabric is not plugged in"},
        Refusal{"throws_in_init", "its init threw 'no licence file'"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(PluginHostTest, RefusesAPluginThatHarmsTheProcess) {
  // In a child process, because the floating-point mode stays as the plugin leaves it.
  const auto refusals = [this] { return refusal("fast_math") + "; " + refusal("fast_math"); };
  const std::string once = ".*it changes the floating-point mode of the program while it is loaded or in its init.*";
  EXPECT_THAT(in_child("plugin", std::chrono::seconds(20), refusals), MatchesRegex(once + once));
}

TEST_F(PluginHostTest, IsStoppedInAPluginThatHangs) {
  const auto hang = [this] { return refusal("hangs_in_init"); };
  try {
    in_child("plugin 'x'", std::chrono::seconds(1), hang);
    FAIL() << "it did not hang";
  } catch (const PluginRefused& error) {
    EXPECT_STREQ(error.what(), "plugin 'x' was not done within 1 s and was killed");
  }
}

TEST_F(PluginHostTest, NamesThePluginThatCrashesInAChild) {
  const auto crash = [this] {
    std::signal(SIGSEGV, SIG_DFL);
    const CrashReport report(log);
    return refusal("crashes_on_load");
  };
  ::testing::internal::CaptureStderr();
  try {
    in_child("plugin 'x'", std::chrono::seconds(20), crash);
    FAIL() << "it did not crash";
  } catch (const PluginRefused& error) {
    EXPECT_THAT(error.what(), HasSubstr("cohort_crashes_on_load.so' crashed with SIGSEGV in its static constructors"));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("error: plugin file '"));
}

TEST_F(PluginHostTest, EndsTheProcessAfterACrash) {
  const auto open = [this](const char* name) {
    std::signal(SIGSEGV, SIG_DFL);  // AddressSanitizer handles it
    const CrashReport report(log);
    plugins.open(Kind::kStrategy, name);
  };
  const ::testing::ExitedWithCode refused(static_cast<int>(ExitCode::kPluginRefused));
  EXPECT_EXIT(open("crashes_in_init"), refused, "cohort_crashes_in_init.so' crashed with SIGABRT in its init; ask");
  EXPECT_EXIT(open("crashes_on_load"), refused,
              "cohort_crashes_on_load.so' crashed with SIGSEGV in its static constructors; ask");
}

TEST_F(PluginHostTest, NamesAPluginThatExits) {
  const auto open = [this] {
    ::atexit([] {
      const auto call = PluginCall::on_this_thread();
      std::fputs(call ? (call->plugin + " exits in its " + call->function).c_str() : "no call", stderr);
    });
    plugins.open(Kind::kStrategy, "exits_in_init");
  };
  EXPECT_EXIT(open(), ::testing::ExitedWithCode(0), "plugin file '.*cohort_exits_in_init.so' exits in its init");
}

TEST_F(PluginHostTest, StillOpensOthersAfterARefusal) {
  EXPECT_THROW(plugins.open(Kind::kStrategy, "fails_in_init"), PluginRefused);
  EXPECT_NO_THROW(plugins.open(Kind::kStrategy, "good"));
}

TEST_F(PluginHostTest, HasAPlainHostObject) {
  EXPECT_EQ(&HostObject::of(plugins.plain_host()).log(), &log);
}

}  // namespace
}  // namespace cohort::host
