// Runs the `cohort` command as a user does.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = -1;
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  Cli() {
    std::string name = (fs::temp_directory_path() / "cohort-cli-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Cli() override { fs::remove_all(folder_); }

  Outcome cohort(std::vector<std::string> arguments, const std::map<std::string, std::string>& variables = {}) const {
    const pid_t child = ::fork();
    if (child == 0) {
      redirect(STDOUT_FILENO, "out");
      redirect(STDERR_FILENO, "err");
      if (::chdir(folder_.c_str()) != 0) ::_exit(126);
      for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
      std::vector<char*> argv;
      arguments.insert(arguments.begin(), COHORT_COMMAND);
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(126);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read("out"), read("err")};
  }

  void redirect(int descriptor, const char* name) const {
    const int file = ::open((folder_ / name).c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ::dup2(file, descriptor);
  }

  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::vector<std::string> run(std::vector<std::string> options, std::vector<std::string> steps = {}) const {
    options.insert(options.begin(), "run");
    options.push_back(RANK_PROGRAM);
    options.push_back("write=" + folder_.string());
    options.insert(options.end(), steps.begin(), steps.end());
    return options;
  }

  fs::path folder_;
};

TEST_F(Cli, TellsItsVersionAndHelp) {
  EXPECT_THAT(cohort({"--version"}).out, ContainsRegex("^cohort [0-9]+\\.[0-9]+\\.[0-9]+ \\(plugin ABI [0-9.]+\\)"));
  const Outcome help = cohort({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("run"), HasSubstr("plugins"), HasSubstr("env")));
  EXPECT_EQ(cohort({"run", "--help"}).code, 0);
}

TEST_F(Cli, MistakesGiveExitCodeTwoAndASentence) {
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

TEST_F(Cli, RunStartsTheRanks) {
  EXPECT_EQ(cohort(run({"-n", "2"})).code, 0);
  EXPECT_THAT(read("rank-1"),
              AllOf(HasSubstr("WORLD_SIZE=2\n"), HasSubstr("LOCAL_RANK=1\n"), HasSubstr("NODE_RANK=0\n")));
}

TEST_F(Cli, RunKnowsTheSpellingsOfOtherLaunchers) {
  EXPECT_EQ(cohort(run({"-np", "2"})).code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "rank-1"));
  EXPECT_EQ(cohort(run({"--nproc_per_node=3"})).code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "rank-2"));
}

TEST_F(Cli, EverythingBehindTheProgramIsItsOwn) {
  EXPECT_EQ(cohort(run({"-n", "1"}, {"-n", "5", "--json", "--help", "env"})).code, 0);
  EXPECT_THAT(read("rank-0"), HasSubstr("argument=-n\nargument=5\nargument=--json\nargument=--help\nargument=env\n"));
  EXPECT_EQ(cohort({"run", "-n", "1", "--", RANK_PROGRAM, "exit=0"}).code, 0);
  EXPECT_THAT(cohort({"run", "-n", "1", "env"}).out, HasSubstr("WORLD_SIZE=1\n")) << "a program, not our command";
}

TEST_F(Cli, RunSimulatesNodes) {
  EXPECT_EQ(cohort(run({"--nnodes=2", "--nproc-per-node=2"})).code, 0);
  EXPECT_THAT(read("rank-3"), AllOf(HasSubstr("NODE_RANK=1\n"), HasSubstr("COHORT_NODE_NAME=node1\n")));
  EXPECT_EQ(cohort(run({"--nnodes=2", "-n", "4"})).code, 0);
}

TEST_F(Cli, NumbersThatContradictAreRefused) {
  EXPECT_EQ(cohort(run({"-n", "3", "--nnodes=2"})).code, 2);
  EXPECT_THAT(cohort(run({"-n", "3", "--nproc-per-node=2"})).err,
              AllOf(HasSubstr("-n 3"), HasSubstr("--nproc-per-node=2")));
  EXPECT_EQ(cohort(run({"-n", "2", "--node-rank=1"})).code, 2);
  EXPECT_EQ(cohort(run({"-n", "2", "--nnodes=2", "--node-rank=0"})).code, 2) << "nodes need an address";
  EXPECT_FALSE(fs::exists(folder_ / "rank-0"));
}

TEST_F(Cli, APortOfTheEnvironmentIsUsed) {
  const Outcome outcome = cohort(run({"-n", "1"}), {{"MASTER_PORT", "1x"}});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("MASTER_PORT=1x"));
}

TEST_F(Cli, AProgramThatIsNotThereIsTheUsersMistake) {
  const Outcome outcome = cohort({"run", "-n", "2", "./missing"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'./missing'"));
  std::ofstream(folder_ / "here") << "#!/bin/sh\n";
  fs::permissions(folder_ / "here", fs::perms::owner_all);
  EXPECT_THAT(cohort({"run", "-n", "2", "here"}).err, HasSubstr("'./here'"));
}

TEST_F(Cli, TheFirstFailureIsTheExitCode) {
  const Outcome outcome = cohort(run({"-n", "2"}, {"1:exit=3"}));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1"));
  const Outcome as_json = cohort(run({"--json", "-n", "2"}, {"1:exit=3"}));
  EXPECT_EQ(json::parse(as_json.err)["level"], "error");
}

TEST_F(Cli, ListShowsWhatIsInstalled) {
  const Outcome outcome = cohort({"plugins", "list"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("ddp +strategy"), ContainsRegex("single +strategy")));
}

TEST_F(Cli, ABrokenPluginIsALineOfTheList) {
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

TEST_F(Cli, AShadowedPluginSaysSo) {
  fs::copy_file(fs::path(LAYER_FOLDER) / "cohort_overriding.so", folder_ / "cohort_overriding.so");
  const Outcome outcome = cohort({"plugins", "list", "--plugin-dir=" + folder_.string(), "--plugin-dir", LAYER_FOLDER});
  EXPECT_THAT(outcome.out, ContainsRegex("overriding +- +- +cannot be used: an earlier folder"));
}

TEST_F(Cli, InfoShowsOptionsAndTheLayerOfEachSlot) {
  const Outcome outcome = cohort({"plugins", "info", "ddp"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("license"), HasSubstr("compression"), ContainsRegex("reduce_bucket +ddp"),
                                 ContainsRegex("shutdown +base")));
  const json report = json::parse(cohort({"plugins", "info", "ddp", "--json"}).out);
  EXPECT_EQ(report["components"][0]["slots"]["reduce_bucket"], "ddp");
  EXPECT_EQ(report["components"][0]["slots"]["shutdown"], "base");
}

TEST_F(Cli, InfoPutsLayersOnTop) {
  const Outcome outcome =
      cohort({"plugins", "info", "ddp", "--layer=overriding", "--json", std::string("--plugin-dir=") + LAYER_FOLDER});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json slots = json::parse(outcome.out)["components"][0]["slots"];
  EXPECT_EQ(slots["end_step"], "overriding");
  EXPECT_EQ(slots["reduce_bucket"], "ddp");
  EXPECT_EQ(slots["begin_step"], "base");
}

TEST_F(Cli, InfoOfAFreeLayerShowsWhatItFills) {
  const Outcome outcome = cohort({"plugins", "info", "overriding", std::string("--plugin-dir=") + LAYER_FOLDER});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("free layer"), ContainsRegex("end_step +overriding"), ContainsRegex("begin_step +base")));
}

TEST_F(Cli, InfoOfWhatCannotBeUsedSaysWhy) {
  const Outcome unknown = cohort({"plugins", "info", "dpd"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'ddp'"));
  const Outcome broken = cohort({"plugins", "info", "no_symbol", std::string("--plugin-dir=") + TEST_PLUGIN_FOLDER});
  EXPECT_EQ(broken.code, 3);
  EXPECT_EQ(cohort({"plugins", "info", "ddp:nonsense"}).code, 2);
  EXPECT_EQ(cohort({"plugins", "info", "../ddp"}).code, 2);
}

TEST_F(Cli, EnvShowsTheTopologyAndTheMachine) {
  const Outcome outcome = cohort({"env"}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("rank +1 +RANK=1"), ContainsRegex("usable_cores +[0-9]+"),
                                 ContainsRegex("plugin_abi +[0-9.]+")));
  const json all = json::parse(cohort({"env", "--json"}, {{"OMP_NUM_THREADS", "3"}}).out);
  EXPECT_EQ(all["topology"]["launcher"], "none");
  EXPECT_EQ(all["machine"]["threads_per_rank"], "3 (OMP_NUM_THREADS)");
  EXPECT_EQ(cohort({"env"}, {{"RANK", "2"}, {"WORLD_SIZE", "2"}}).code, 2);
}

}  // namespace
