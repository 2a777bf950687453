// Runs the `cohort` command as a user does.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli.hpp"

namespace cohort::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class CliTest : public Cli {
 protected:
  std::vector<std::string> run(std::vector<std::string> options, std::vector<std::string> steps = {}) const {
    options.insert(options.begin(), "run");
    options.push_back(RANK_PROGRAM);
    options.push_back("write=" + folder_.string());
    options.insert(options.end(), steps.begin(), steps.end());
    return options;
  }
};

TEST_F(CliTest, TellsItsVersionAndHelp) {
  EXPECT_THAT(cohort({"--version"}).out, ContainsRegex("^cohort [0-9]+\\.[0-9]+\\.[0-9]+ \\(plugin ABI [0-9.]+\\)"));
  const Outcome help = cohort({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("run"), HasSubstr("plugins"), HasSubstr("env")));
  EXPECT_EQ(cohort({"run", "--help"}).code, 0);
}

TEST_F(CliTest, RunStartsTheRanksOfNamedHostsThroughAnAgent) {
  const Outcome outcome = cohort({"run", "-np", "2", "-H", "localhost:4", "-x", "ADDED=a b", "--output-filename=files",
                                  "/bin/sh", "-c", "echo $RANK of $WORLD_SIZE $ADDED"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("0 of 2 a b\n"), HasSubstr("1 of 2 a b\n")));
  EXPECT_EQ(read("files/rank.1/stdout"), "1 of 2 a b\n");
  EXPECT_THAT(cohort({"--help"}).out, Not(HasSubstr("serve-node"))) << "nothing for a user";
}

TEST_F(CliTest, TheLoadersExitCodeIsExplained) {
  const Outcome outcome = cohort({"run", "-n", "1", "/bin/sh", "-c", "exit 127"});
  EXPECT_EQ(outcome.code, 127);
  EXPECT_THAT(outcome.err, HasSubstr("ended with exit code 127 (something was not found; cohort libtorch says"));
}

TEST_F(CliTest, HostsThatAreGivenButEmptyAreNotThisMachine) {
  for (const char* option : {"-H", "--hostfile", "--output-filename"}) {
    EXPECT_EQ(cohort({"run", "-n", "1", option, "", "true"}).code, 2) << option;
  }
}

TEST_F(CliTest, MistakesGiveExitCodeTwoAndASentence) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{},
                                                    {"walk"},
                                                    {"run"},
                                                    {"run", "-n", "2"},
                                                    {"run", "-n", "0", "true"},
                                                    {"run", "-n", "x", "true"},
                                                    {"run", "--nodes=2", "true"},
                                                    {"plugins"},
                                                    {"plugins", "info"},
                                                    {"env", "extra"}}) {
    const Outcome outcome = cohort(arguments);
    EXPECT_EQ(outcome.code, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, ::testing::StartsWith("error: ")) << ::testing::PrintToString(arguments);
  }
}

TEST_F(CliTest, AMistakePointsToTheHelpOfItsCommand) {
  EXPECT_THAT(cohort({"plugins"}).err, HasSubstr("; see cohort plugins --help\n"));
  EXPECT_THAT(cohort({"plugins", "info"}).err, HasSubstr("; see cohort plugins info --help\n"));
  EXPECT_THAT(cohort({"walk"}).err, HasSubstr("; see cohort --help\n"));
}

TEST_F(CliTest, RunStartsTheRanks) {
  EXPECT_EQ(cohort(run({"-n", "2"})).code, 0);
  EXPECT_THAT(read("rank-1"),
              AllOf(HasSubstr("WORLD_SIZE=2\n"), HasSubstr("LOCAL_RANK=1\n"), HasSubstr("NODE_RANK=0\n")));
}

TEST_F(CliTest, RunKnowsTheSpellingsOfOtherLaunchers) {
  EXPECT_EQ(cohort(run({"-np", "2"})).code, 0);
  EXPECT_EQ(cohort(run({"-n2"})).code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "rank-1"));
  EXPECT_EQ(cohort(run({"--nproc_per_node=3"})).code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "rank-2"));
}

TEST_F(CliTest, EverythingBehindTheProgramIsItsOwn) {
  EXPECT_EQ(cohort(run({"-n", "1"}, {"-n", "5", "--json", "--help", "env"})).code, 0);
  EXPECT_THAT(read("rank-0"), HasSubstr("argument=-n\nargument=5\nargument=--json\nargument=--help\nargument=env\n"));
  EXPECT_EQ(cohort({"run", "-n", "1", "--", RANK_PROGRAM, "exit=0"}).code, 0);
  EXPECT_THAT(cohort({"run", "-n", "1", "env"}).out, HasSubstr("WORLD_SIZE=1\n")) << "a program, not our command";
}

TEST_F(CliTest, RunSimulatesNodes) {
  EXPECT_EQ(cohort(run({"--nnodes=2", "--nproc-per-node=2"})).code, 0);
  EXPECT_THAT(read("rank-3"), AllOf(HasSubstr("NODE_RANK=1\n"), HasSubstr("COHORT_NODE_NAME=node1\n")));
  EXPECT_EQ(cohort(run({"--nnodes=2", "-n", "4"})).code, 0);
}

TEST_F(CliTest, NumbersThatContradictAreRefused) {
  EXPECT_EQ(cohort(run({"-n", "3", "--nnodes=2"})).code, 2);
  EXPECT_THAT(cohort(run({"-n", "3", "--nproc-per-node=2"})).err,
              AllOf(HasSubstr("-n 3"), HasSubstr("--nproc-per-node=2")));
  EXPECT_EQ(cohort(run({"-n", "2", "--node-rank=1"})).code, 2);
  EXPECT_EQ(cohort(run({"-n", "2", "--nnodes=2", "--node-rank=0"})).code, 2) << "nodes need an address";
  EXPECT_FALSE(fs::exists(folder_ / "rank-0"));
}

TEST_F(CliTest, APortOfTheEnvironmentIsUsed) {
  const Outcome outcome = cohort(run({"-n", "1"}), {{"MASTER_PORT", "1x"}});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("MASTER_PORT=1x"));
}

TEST_F(CliTest, AProgramThatIsNotThereIsTheUsersMistake) {
  const Outcome outcome = cohort({"run", "-n", "2", "./missing"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'./missing'"));
  std::ofstream(folder_ / "here") << "#!/bin/sh\n";
  fs::permissions(folder_ / "here", fs::perms::owner_all);
  EXPECT_THAT(cohort({"run", "-n", "2", "here"}).err, HasSubstr("'./here'"));
}

TEST_F(CliTest, TheFirstFailureIsTheExitCode) {
  const Outcome outcome = cohort(run({"-n", "2"}, {"1:exit=3"}));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1"));
  const Outcome as_json = cohort(run({"--json", "-n", "2"}, {"1:exit=3"}));
  EXPECT_EQ(json::parse(as_json.err)["level"], "error");
}

TEST_F(CliTest, ListShowsWhatIsInstalled) {
  const Outcome outcome = cohort({"plugins", "list"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("ddp +strategy"), ContainsRegex("single +strategy")));
}

TEST_F(CliTest, ABrokenPluginIsALineOfTheList) {
  fs::create_directory(folder_ / "plugins");
  for (const char* name : {"good", "crashes_in_init", "no_symbol"}) {
    const std::string file = std::string("cohort_") + name + ".so";
    fs::copy_file(fs::path(TEST_PLUGIN_FOLDER) / file, folder_ / "plugins" / file);
  }
  std::ofstream(folder_ / "plugins" / "cohort_text.so") << "text";
  const Outcome outcome = cohort({"plugins", "list", "--json", "--plugin-dir=" + (folder_ / "plugins").string()});
  EXPECT_EQ(outcome.code, 0);
  std::map<std::string, json> entries;
  for (const json& entry : json::parse(outcome.out)) entries[entry["name"]] = entry;
  EXPECT_EQ(entries["good"]["components"][0]["kind"], "strategy");
  EXPECT_THAT(entries["crashes_in_init"]["problem"].get<std::string>(), HasSubstr("crash"));
  EXPECT_THAT(entries["no_symbol"]["problem"].get<std::string>(), HasSubstr("cohort_plugin_0"));
  EXPECT_THAT(entries["text"]["problem"].get<std::string>(), HasSubstr("ELF"));
  EXPECT_TRUE(entries.contains("ddp"));
}

TEST_F(CliTest, AShadowedPluginSaysSo) {
  fs::copy_file(fs::path(LAYER_FOLDER) / "cohort_overriding.so", folder_ / "cohort_overriding.so");
  const Outcome outcome = cohort({"plugins", "list", "--plugin-dir=" + folder_.string(), "--plugin-dir", LAYER_FOLDER});
  EXPECT_THAT(outcome.out, ContainsRegex("overriding +- +- +cannot be used: an earlier folder"));
}

TEST_F(CliTest, InfoShowsOptionsAndTheLayerOfEachSlot) {
  const Outcome outcome = cohort({"plugins", "info", "ddp"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("license"), HasSubstr("compression"), ContainsRegex("reduce_bucket +ddp"),
                                 ContainsRegex("shutdown +base")));
  const json report = json::parse(cohort({"plugins", "info", "ddp", "--json"}).out);
  EXPECT_EQ(report["components"][0]["slots"]["reduce_bucket"], "ddp");
  EXPECT_EQ(report["components"][0]["slots"]["shutdown"], "base");
}

TEST_F(CliTest, InfoSaysHowACollectiveSums) {
  EXPECT_THAT(cohort({"plugins", "info", "mpi"}).out,
              HasSubstr("in an order of its own; 16-bit types in float32, rounded once"));
  EXPECT_THAT(cohort({"plugins", "info", "nccl"}).out,
              AllOf(HasSubstr("in an order of its own; 16-bit types as the option sums says"),
                    HasSubstr("sums of 16-bit types: rounded once, by kernels of the accelerator; or NCCL's own")));
  const json shm = json::parse(cohort({"plugins", "info", "shm", "--json"}).out)["components"][0]["sums"];
  EXPECT_EQ(shm, json({{"rank_ordered", true}, {"rounds_once", true}}));
  const json sim = json::parse(cohort({"plugins", "info", "sim", "--json"}).out)["components"][0]["sums"];
  EXPECT_EQ(sim, json({{"rank_ordered", true}, {"rounds_once", true}})) << "the host composes its sums";
}

TEST_F(CliTest, InfoSaysWhichDevicesAnAcceleratorFinds) {
  const json devices = json::parse(cohort({"plugins", "info", "cpu", "--json"}).out)["components"][0]["devices"];
  ASSERT_GE(devices.size(), 1u);
  EXPECT_GT(devices[0]["memory_bytes"], 1 << 20);
  EXPECT_THAT(cohort({"plugins", "info", "cpu"}).out,
              HasSubstr(std::to_string(devices.size()) + " x " + devices[0]["name"].get<std::string>() + " ("));
#ifdef COHORT_HAS_CUDA  // with GPUs or without, and without a driver
  const Outcome outcome = cohort({"plugins", "info", "cuda"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("devices +[0-9]+ (on this machine|x )"));
#endif
}

TEST_F(CliTest, InfoPutsLayersOnTop) {
  const Outcome outcome =
      cohort({"plugins", "info", "ddp", "--layer=overriding", "--json", std::string("--plugin-dir=") + LAYER_FOLDER});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json slots = json::parse(outcome.out)["components"][0]["slots"];
  EXPECT_EQ(slots["end_step"], "overriding");
  EXPECT_EQ(slots["reduce_bucket"], "ddp");
  EXPECT_EQ(slots["begin_step"], "base");
}

TEST_F(CliTest, InfoOfAFreeLayerShowsWhatItFills) {
  const Outcome outcome = cohort({"plugins", "info", "overriding", std::string("--plugin-dir=") + LAYER_FOLDER});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("free layer"), ContainsRegex("end_step +overriding"), ContainsRegex("begin_step +base")));
}

TEST_F(CliTest, InfoOfWhatCannotBeUsedSaysWhy) {
  const Outcome unknown = cohort({"plugins", "info", "dpd"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'ddp'"));
  const Outcome broken = cohort({"plugins", "info", "no_symbol", std::string("--plugin-dir=") + TEST_PLUGIN_FOLDER});
  EXPECT_EQ(broken.code, 3);
  EXPECT_EQ(cohort({"plugins", "info", "ddp:nonsense"}).code, 2);
  EXPECT_EQ(cohort({"plugins", "info", "../ddp"}).code, 2);
}

TEST_F(CliTest, EnvShowsTheTopologyAndTheMachine) {
  const Outcome outcome = cohort({"env"}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("rank +1 +RANK=1"), ContainsRegex("usable_cores +[0-9]+"),
                                 ContainsRegex("plugin_abi +[0-9.]+")));
  const json all = json::parse(cohort({"env", "--json"}, {{"OMP_NUM_THREADS", "3"}}).out);
  EXPECT_EQ(all["topology"]["launcher"], "none");
  std::istringstream rows(outcome.out.substr(0, outcome.out.find("\n\n")));
  for (std::string row; std::getline(rows, row);) {
    EXPECT_TRUE(all["topology"].contains(row.substr(0, row.find(' ')))) << row;
  }
  EXPECT_EQ(all["machine"]["threads_per_rank"], "3 (OMP_NUM_THREADS)");
  EXPECT_THAT(all["versions"]["libtorch"].get<std::string>(), ContainsRegex("^([0-9]+\\.[0-9]+\\.[0-9]+|none)$"));
  EXPECT_EQ(json::parse(cohort({"env", "--json"}, {{"ATEN_CPU_CAPABILITY", "avx2"}}).out)["machine"]["cpu_capability"],
            "avx2 (ATEN_CPU_CAPABILITY)");
}

TEST_F(CliTest, EnvShowsWhatIsWrongWithThePlaceOfARank) {
  const std::map<std::string, std::string> variables{{"RANK", "2"}, {"WORLD_SIZE", "2"}};
  const Outcome outcome = cohort({"env"}, variables);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("problem +environment: RANK=2"), ContainsRegex("rank +2 +RANK=2"),
                                 HasSubstr("usable_cores")));
  const Outcome as_json = cohort({"env", "--json"}, variables);
  EXPECT_EQ(as_json.code, 2);
  const json all = json::parse(as_json.out);
  EXPECT_THAT(all["problems"][0].get<std::string>(), HasSubstr("WORLD_SIZE=2"));
  EXPECT_EQ(all["topology"]["world_size"], 2);
  EXPECT_TRUE(all["machine"].contains("usable_cores"));
}

TEST_F(CliTest, EnvShowsLaunchersAndTheVariablesOfLibraries) {
  const std::map<std::string, std::string> variables{{"NCCL_DEBUG", "INFO"},   {"GLOO_SOCKET_IFNAME", "a\nb"},
                                                     {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"},
                                                     {"PMI_RANK", "0"},        {"PMI_SIZE", "2"}};
  const Outcome outcome = cohort({"env"}, variables);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("found +mpiexec by PMI_RANK=0"), ContainsRegex("NCCL_DEBUG +INFO"),
                                 ContainsRegex("GLOO_SOCKET_IFNAME +a.x0ab")));
  const json all = json::parse(cohort({"env", "--json"}, variables).out);
  EXPECT_EQ(all["found"][0], "mpiexec by PMI_RANK=0");
  EXPECT_EQ(all["libraries"]["NCCL_DEBUG"], "INFO");
}

}  // namespace
}  // namespace cohort::cli
