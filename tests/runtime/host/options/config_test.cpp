#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "given.hpp"

namespace cohort::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() {
    std::string name = (fs::temp_directory_path() / "cohort-config-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~ConfigTest() override { fs::remove_all(folder_); }

  std::string flag(const std::string& text) const {
    std::ofstream(folder_ / "run.toml") << text;
    return "--config=" + (folder_ / "run.toml").string();
  }

  fs::path folder_;
};

TEST_F(ConfigTest, AProfileHasAFileAndOptions) {
  EXPECT_FALSE(parse({}).profile);
  EXPECT_EQ(parse({"--profile"}).profile, Spec("cohort_profile.json"));
  const Spec given = Spec("out/trace.json").set("steps", 3);
  EXPECT_EQ(parse({"--profile=out/trace.json,steps=3"}).profile, given);
  EXPECT_EQ(parse({flag("profile = \"out/trace.json,steps=3\"\n")}).profile, given);
  EXPECT_THAT(print_config(parse({"--profile=out/trace.json,steps=3"})),
              HasSubstr("profile = \"out/trace.json,steps=3\""));
}

TEST_F(ConfigTest, KeysAreFlagNames) {
  const Options options =
      parse({flag("strategy = \"ddp\"\n"
                  "max_steps = 5\n"
                  "devices = [0, 1]\n"
                  "limit-train-batches = 0.5\n"
                  "limit-val-batches = 1.0\n"
                  "limit-test-batches = 1\n"
                  "barebones = true\n"
                  "timeout = 60\n"
                  "layer = [\"one\", \"two\"]\n"
                  "plugin-dir = \"only\"\n"
                  "epochs = 7\n")});
  EXPECT_EQ(options.strategy, Spec("ddp"));
  EXPECT_EQ(options.max_steps, 5);
  EXPECT_THAT(options.devices.ids, ElementsAre(0, 1));
  EXPECT_EQ(options.limit_train_batches.fraction, 0.5);
  EXPECT_EQ(options.limit_val_batches.fraction, 1.0);
  EXPECT_EQ(options.limit_test_batches.count, 1);
  EXPECT_TRUE(options.barebones);
  EXPECT_EQ(options.timeout, 60s);
  EXPECT_EQ(options.layers.size(), 2u);
  EXPECT_THAT(options.plugin_dirs, ElementsAre("only"));
  EXPECT_EQ(options.own.at("epochs"), "7");
  EXPECT_EQ(options.origin("max-steps"), Origin::kConfig);
}

TEST_F(ConfigTest, TheFileIsWeakerThanVariablesAndStrongerThanCode) {
  Places places;
  places.code.seed = 1;
  places.code.num_nodes = 2;
  places.arguments = {flag("seed = 10\nmax-steps = 11\nnum-nodes = 12")};
  places.environment = {{"COHORT_MAX_STEPS", "100"}};
  const Options options = parse_from(places);
  EXPECT_EQ(options.seed, 10u);
  EXPECT_EQ(options.max_steps, 100);
  EXPECT_EQ(options.num_nodes, 12);
}

TEST_F(ConfigTest, AVariableMayNameTheFile) {
  const std::string file = flag("seed = 10").substr(std::string("--config=").size());
  EXPECT_EQ(parse_from(Places{{}, {{"COHORT_CONFIG", file}}, {}}).seed, 10u);
}

TEST_F(ConfigTest, PluginTablesAreKeptByName) {
  const Options options =
      parse({flag("[strategy]\nname = \"bagua:async\"\n[strategy.bagua]\nsync_interval_ms = 100\n"
                  "[collective.shm]\nspin = false\nscale = 2.0\n")});
  EXPECT_EQ(options.strategy, Spec("bagua", "async"));
  EXPECT_THAT(options.plugin_options.at("strategy.bagua"), ElementsAre(Pair("sync_interval_ms", "100")));
  EXPECT_THAT(options.plugin_options.at("collective.shm"), ElementsAre(Pair("scale", "2.0"), Pair("spin", "false")));
}

TEST_F(ConfigTest, MistakesNameFileAndLine) {
  const auto at = [this](int line) { return HasSubstr((folder_ / "run.toml").string() + ":" + std::to_string(line)); };
  EXPECT_THAT(refusal({flag("seed = 1\n\nmax-stps = 3")}), AllOf(at(3), HasSubstr("'max-steps'")));
  EXPECT_THAT(refusal({flag("seed = 1\ndevices = \"two\"")}), AllOf(at(2), HasSubstr("devices: 'two'")));
  EXPECT_THAT(refusal({flag("seed = 1\ndevices = = 3")}), at(2));
  EXPECT_THAT(refusal({flag("max-steps = 1\nmax_steps = 2")}), AllOf(at(2), HasSubstr("twice")));
  EXPECT_THAT(refusal({flag("seed = 2020-01-01")}), at(1));
  EXPECT_THAT(refusal({flag("[optimizer]\nlr = 1")}), AllOf(at(1), HasSubstr("'optimizer'")));
  EXPECT_THAT(refusal({flag("[strategy]\nvariant = \"async\"")}), AllOf(at(2), HasSubstr("[strategy.NAME]")));
  EXPECT_THAT(refusal({flag("strategy = \"ddp\"\n[strategy.ddp]\nx = 1")}), AllOf(at(3), HasSubstr("name = ")));
  EXPECT_THAT(refusal({flag("[strategy.ddp]\nx = { y = 1 }")}), AllOf(at(2), HasSubstr("'x'")));
}

TEST_F(ConfigTest, AFileThatCannotBeReadIsRefused) {
  EXPECT_THAT(refusal({"--config=" + (folder_ / "missing.toml").string()}), HasSubstr("missing.toml"));
  EXPECT_THAT(refusal({"--config=" + folder_.string()}), HasSubstr(folder_.string()));
}

TEST_F(ConfigTest, AFileThatIsNoRegularOneIsRefusedAtOnce) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& file : {pipe, std::string("/dev/zero"), std::string("/dev/null")}) {
    EXPECT_THAT(refusal({"--config=" + file}),
                AllOf(HasSubstr(file + ": it is not a regular file"), HasSubstr("TOML")));
  }
}

TEST_F(ConfigTest, AFileOfAnAbsurdSizeIsNotRead) {
  const std::string given = flag("seed = 1\n");
  fs::resize_file(folder_ / "run.toml", uintmax_t{1} << 40);
  EXPECT_THAT(refusal({given}), HasSubstr("longer than 4194304 bytes"));
}

TEST_F(ConfigTest, AFileNamesNoOther) {
  const std::string other = flag("config = \"other.toml\"");
  EXPECT_THAT(refusal({other}), AllOf(HasSubstr("run.toml:1"), HasSubstr("cannot name another")));
}

TEST_F(ConfigTest, TextWithANulByteIsRefused) {
  for (const char* text : {"summary-json = \"a\\u0000b\"", "plugin = [\"a\\u0000b\"]", "data-dir = \"\\u0000\"",
                           "[strategy.ddp]\nx = \"a\\u0000b\""}) {
    EXPECT_THAT(refusal({flag(text)}), AllOf(HasSubstr("run.toml:"), HasSubstr("NUL byte"))) << text;
  }
}

TEST_F(ConfigTest, HostileBytesAreRefusedAndDoNoHarm) {
  for (const std::string& text : {std::string("\0\0\0", 3), std::string(100'000, '['), std::string("a=\"\xff\""),
                                  std::string("seed = 99999999999999999999"), std::string("a.b.c = 1")}) {
    EXPECT_THAT(refusal({flag(text)}), HasSubstr("run.toml"));
  }
}

TEST_F(ConfigTest, PrintedOptionsReadBackAsTheSame) {
  const std::vector<std::vector<std::string>> cases{
      {},
      {"--strategy=bagua:async,a=1,b=x,,y",
       "--layer=one",
       "--layer=two,k=v",
       "--devices=[1,0]",
       "--num-nodes=2",
       "--collective=shm",
       "--bucket-size=1MiB",
       "--threads=2",
       "--max-epochs=3",
       "--max-steps=4",
       "--max-time=90m",
       "--limit-train-batches=0.1",
       "--limit-val-batches=0",
       "--val-check-interval=100",
       "--seed=18446744073709551615",
       "--deterministic",
       "--plugin=/a \"b\"\\c.so",
       "--plugin-dir=d",
       "--log-dir=l",
       "--log-level=off",
       "--log-format=json",
       "--timeout=1500ms",
       "--malloc=default",
       "--barebones",
       "--fast-dev-run=3",
       "--summary-json=s",
       "--data-dir=tab\tand \"quote\"",
       "--epochs=0"},
      {"--devices=auto", "--max-time=100ms"},
      {"--devices=3"},
      {"--devices=GPU-1,MIG-2"},
      {flag("[strategy]\nname = \"bagua\"\n[strategy.bagua]\na = 1\nb = \"x\"\n[collective.shm]\nc = 2.5")}};
  for (const auto& arguments : cases) {
    const Options first = parse(arguments);
    const std::string text = print_config(first);
    std::ofstream(folder_ / "printed.toml") << text;
    const Options second = parse({"--config=" + (folder_ / "printed.toml").string()});
    EXPECT_EQ(second.strategy, first.strategy);
    EXPECT_EQ(second.layers, first.layers);
    EXPECT_EQ(second.devices, first.devices);
    EXPECT_EQ(second.collective, first.collective);
    EXPECT_EQ(second.bucket_size, first.bucket_size);
    EXPECT_EQ(second.max_time, first.max_time);
    EXPECT_EQ(second.limit_train_batches.fraction, first.limit_train_batches.fraction);
    EXPECT_EQ(second.val_check_interval, first.val_check_interval);
    EXPECT_EQ(second.seed, first.seed);
    EXPECT_EQ(second.timeout, first.timeout);
    EXPECT_EQ(second.tune_malloc, first.tune_malloc);
    EXPECT_EQ(second.log_level, first.log_level);
    EXPECT_EQ(second.plugins, first.plugins);
    EXPECT_EQ(second.own, first.own);
    EXPECT_EQ(second.plugin_options, first.plugin_options);
    // Everything else: the same text again, but for where each value came from.
    const auto values = [](const std::string& config) {
      std::string kept;
      std::istringstream lines(config);
      for (std::string line; std::getline(lines, line);) kept += line.substr(0, line.rfind("  # ")) + "\n";
      return kept;
    };
    EXPECT_EQ(values(print_config(second)), values(text));
  }
}

TEST_F(ConfigTest, PrintedOptionsSayWhereEachCameFrom) {
  const std::string text = print_config(parse_from(Places{{"--seed=3"}, {{"COHORT_MAX_STEPS", "4"}}, {}}));
  EXPECT_THAT(text, HasSubstr("seed = 3  # flag\n"));
  EXPECT_THAT(text, HasSubstr("max-steps = 4  # environment\n"));
  EXPECT_THAT(text, HasSubstr("num-nodes = 1  # default\n"));
  EXPECT_THAT(text, HasSubstr("# max-epochs is not set\n"));
}

}  // namespace
}  // namespace cohort::host
