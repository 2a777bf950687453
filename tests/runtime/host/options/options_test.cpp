#include <cohort/host/options.hpp>

#include <gmock/gmock.h>

#include "given.hpp"
#include "options/flag_table.hpp"

namespace cohort::host {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Options, WithoutAnyTheDefaultsHold) {
  const Options options = parse({});
  EXPECT_FALSE(options.strategy);
  EXPECT_EQ(options.accelerator, "auto");
  EXPECT_EQ(options.devices.kind, Devices::Kind::kDefault);
  EXPECT_EQ(options.timeout, 300s);
  EXPECT_EQ(options.seed, 0u);
  EXPECT_EQ(options.own.at("epochs"), "10");
  EXPECT_EQ(options.origin("seed"), Origin::kDefault);
  EXPECT_TRUE(options.warnings.empty());
}

TEST(Options, DevicesMayBeNamedAsTheDriverNamesThem) {
  const Options o = parse({"--devices=GPU-8932f937-d72c, MIG-GPU-8932f937/1/0"});
  EXPECT_EQ(o.devices.kind, Devices::Kind::kNames);
  EXPECT_THAT(o.devices.names, ElementsAre("GPU-8932f937-d72c", "MIG-GPU-8932f937/1/0"));
  EXPECT_EQ(parse({"--devices=[GPU-1]"}).devices.names.size(), 1u);
  EXPECT_THAT(refusal({"--devices=GPU-1,GPU-1"}), HasSubstr("GPU-1 is there twice"));
  for (const char* wrong : {"--devices=GPU-", "--devices=GPU-1,2", "--devices=[-1]", "--devices=GPU-1;x"}) {
    EXPECT_THAT(refusal({wrong}), HasSubstr("names (GPU-8932f937)")) << wrong;
  }
}

TEST(Options, EveryFlagReachesItsField) {
  const Options o = parse({"--strategy=bagua:async,sync_interval_ms=100",
                           "--layer=one",
                           "--layer",
                           "two,k=v",
                           "--accelerator=cpu",
                           "--devices=2",
                           "--num-nodes=3",
                           "--collective=shm",
                           "--bucket-size=25MiB",
                           "--threads=4",
                           "--max-epochs=5",
                           "--max-steps=6",
                           "--max-time=2h",
                           "--limit-train-batches=7",
                           "--limit-val-batches=0.5",
                           "--limit-test-batches=1.0",
                           "--val-check-interval=0.25",
                           "--log-every-n-steps=8",
                           "--accumulate-grad-batches=9",
                           "--seed=18446744073709551615",
                           "--deterministic",
                           "--plugin=a.so",
                           "--plugin-dir=x",
                           "--plugin-dir=y",
                           "--log-dir=logs",
                           "--log-level=debug",
                           "--log-format=json",
                           "--timeout=90",
                           "--malloc=default",
                           "--barebones",
                           "--fast-dev-run",
                           "--summary-json=s.json",
                           "--print-config",
                           "--data-dir=/data",
                           "--epochs=3"});
  EXPECT_EQ(o.strategy, Spec("bagua", "async").set("sync_interval_ms", 100));
  EXPECT_THAT(o.layers, ElementsAre(Spec("one"), Spec("two").set("k", "v")));
  EXPECT_EQ(o.accelerator, "cpu");
  EXPECT_EQ(o.devices.count, 2);
  EXPECT_EQ(o.num_nodes, 3);
  EXPECT_EQ(o.collective, Spec("shm"));
  EXPECT_EQ(o.bucket_size, 25u << 20);
  EXPECT_EQ(o.threads, 4);
  EXPECT_EQ(o.max_epochs, 5);
  EXPECT_EQ(o.max_steps, 6);
  EXPECT_EQ(o.max_time, 7200s);
  EXPECT_EQ(o.limit_train_batches.count, 7);
  EXPECT_EQ(o.limit_val_batches.fraction, 0.5);
  EXPECT_EQ(o.limit_test_batches.fraction, 1.0);
  EXPECT_EQ(o.val_check_interval->fraction, 0.25);
  EXPECT_EQ(o.log_every_n_steps, 8);
  EXPECT_EQ(o.accumulate_grad_batches, 9);
  EXPECT_EQ(o.seed, 18446744073709551615u);
  EXPECT_TRUE(o.deterministic);
  EXPECT_THAT(o.plugins, ElementsAre("a.so"));
  EXPECT_THAT(o.plugin_dirs, ElementsAre("x", "y"));
  EXPECT_EQ(o.log_dir, "logs");
  EXPECT_EQ(o.log_level, LogLevel::kDebug);
  EXPECT_EQ(o.log_format, LogFormat::kJson);
  EXPECT_EQ(o.timeout, 90s);
  EXPECT_FALSE(o.tune_malloc);
  EXPECT_TRUE(o.barebones);
  EXPECT_EQ(o.fast_dev_run, 1);
  EXPECT_EQ(o.summary_json, "s.json");
  EXPECT_TRUE(o.print_config);
  EXPECT_EQ(o.own.at("data-dir"), "/data");
  EXPECT_EQ(o.own.at("epochs"), "3");
  EXPECT_EQ(o.origin("devices"), Origin::kFlag);
}

TEST(Options, DashesAndUnderscoresAreEqual) {
  const Options options = parse({"--max_steps=3", "--data_dir", "/a_b-c"});
  EXPECT_EQ(options.max_steps, 3);
  EXPECT_EQ(options.own.at("data-dir"), "/a_b-c");
}

TEST(Options, AFlagThatIsGivenTwiceIsRefused) {
  EXPECT_THAT(refusal({"--seed=1", "--max-steps=3", "--seed", "2"}),
              AllOf(HasSubstr("'--seed'"), HasSubstr("twice"), HasSubstr("'1' and '2'")));
  EXPECT_THAT(refusal({"--max_steps=3", "--max-steps=3"}), AllOf(HasSubstr("'--max-steps'"), HasSubstr("twice")));
  EXPECT_THAT(refusal({"--barebones", "--barebones=false"}), HasSubstr("'--barebones'"));
  EXPECT_THAT(refusal({"--deterministic", "--deterministic", "--deterministic"}), HasSubstr("several times"));
  EXPECT_THAT(refusal({"--fast-dev-run", "--fast-dev-run=2"}), HasSubstr("'--fast-dev-run'"));
  EXPECT_THAT(refusal({"--epochs=1", "--epochs=2"}), HasSubstr("'--epochs'"));
  EXPECT_THAT(refusal({"--config=a.toml", "--config=b.toml"}), HasSubstr("'--config'"));
  EXPECT_THAT(refusal({"--gpus=1", "--gpus=2"}), HasSubstr("'--gpus'"));
  EXPECT_EQ(parse({"--plugin-dir=a", "--seed=1", "--plugin-dir=b"}).plugin_dirs.size(), 2u);
}

TEST(Options, AnEmptyValueIsAValue) {
  EXPECT_EQ(parse({"--data-dir=", "--seed=1"}).own.at("data-dir"), "");
  EXPECT_THAT(refusal({"--log-dir=", "--seed=1"}), HasSubstr("--log-dir"));
}

TEST(Options, FastDevRunTakesANumberOrNone) {
  EXPECT_EQ(parse({"--fast-dev-run=5"}).fast_dev_run, 5);
  EXPECT_EQ(parse({"--fast-dev-run", "5"}).fast_dev_run, 5);
  EXPECT_EQ(parse({"--fast-dev-run", "--seed=3"}).fast_dev_run, 1);
}

TEST(Options, DevicesAreACountIdsOrAll) {
  const auto ids = [](const std::string& text) { return parse({"--devices=" + text}).devices.ids; };
  EXPECT_EQ(parse({"--devices", "2"}).devices.count, 2);
  EXPECT_THAT(ids("[0]"), ElementsAre(0));
  EXPECT_THAT(ids("[0,1]"), ElementsAre(0, 1));
  EXPECT_THAT(ids("[3, 1]"), ElementsAre(3, 1));
  EXPECT_THAT(ids("0,1"), ElementsAre(0, 1));
  EXPECT_EQ(parse({"--devices", "-1"}).devices.kind, Devices::Kind::kAll);
  EXPECT_EQ(parse({"--devices=-1"}).devices.kind, Devices::Kind::kAll);
  EXPECT_EQ(parse({"--devices=auto"}).devices.kind, Devices::Kind::kAll);
}

TEST(Options, OtherDevicesAreRefusedWithWhatIsAllowed) {
  for (const char* text : {"0", "two", "-2", "[]", "[0,0]", "0,0", "[0", "0]", "[-1]", "1,", ",1", "[a]", "2x", "",
                           "99999999999", "[0 1]", "1.5"}) {
    EXPECT_THAT(refusal({std::string("--devices=") + text}),
                AllOf(HasSubstr("--devices"), HasSubstr("'" + std::string(text) + "'"), HasSubstr("give ")));
  }
}

TEST(Options, NumbersAreCheckedToTheirEnd) {
  for (const char* argument : {"--num-nodes=0",
                               "--num-nodes=1x",
                               "--max-steps=-2",
                               "--max-epochs=1.5",
                               "--max-steps=9223372036854775808",
                               "--seed=-1",
                               "--seed=18446744073709551616",
                               "--threads=0",
                               "--log-every-n-steps=0",
                               "--accumulate-grad-batches=0",
                               "--limit-train-batches=-1",
                               "--limit-train-batches=1.5",
                               "--limit-val-batches=0.0",
                               "--limit-val-batches=nan",
                               "--limit-val-batches=half",
                               "--val-check-interval=0",
                               "--timeout=0",
                               "--timeout=5x",
                               "--max-time=0s",
                               "--bucket-size=big",
                               "--barebones=maybe",
                               "--fast-dev-run=-1",
                               "--malloc=fast",
                               "--log-level=loud",
                               "--log-format=xml",
                               "--accelerator=../cpu",
                               "--strategy=Upper",
                               "--strategy=ddp:",
                               "--layer=",
                               "--seed= 1"}) {
    const std::string flag = std::string(argument).substr(0, std::string(argument).find('='));
    EXPECT_THAT(refusal({argument}), HasSubstr(flag)) << argument;
  }
}

TEST(Options, AnUnknownFlagIsRefusedWithTheNearestOne) {
  EXPECT_THAT(refusal({"--stratgy=ddp"}), AllOf(HasSubstr("--stratgy"), HasSubstr("'strategy'")));
  EXPECT_THAT(refusal({"--epoch", "3"}), AllOf(HasSubstr("--epoch"), HasSubstr("'epochs'")));
  EXPECT_THAT(refusal({"--quantisation=16"}), AllOf(HasSubstr("--quantisation"), HasSubstr("unknown")));
  EXPECT_THAT(refusal({"-x"}), HasSubstr("-x"));
  EXPECT_THAT(refusal({"stray"}), HasSubstr("'stray'"));
  EXPECT_THAT(refusal({"--", "--seed=3"}), HasSubstr("'--'"));
}

TEST(Options, AFlagWithoutItsValueIsRefused) {
  EXPECT_THAT(refusal({"--devices=1", "--seed"}), AllOf(HasSubstr("'--seed'"), HasSubstr("value")));
}

TEST(Options, HelpIsGroupedWithTheProgramsOwnFirst) {
  try {
    parse({"--seed=1", "--help"});
    FAIL() << "expected the help";
  } catch (const HelpRequested& help) {
    const std::string& text = help.text;
    EXPECT_THAT(text, HasSubstr("mnist"));
    const std::size_t own = text.find("--data-dir"), strategy = text.find("--strategy"), seed = text.find("--seed");
    EXPECT_LT(own, strategy);
    EXPECT_LT(strategy, seed);
    EXPECT_NE(seed, std::string::npos);
    EXPECT_THAT(text, HasSubstr("folder with the MNIST files"));
    EXPECT_THAT(text, HasSubstr("(default: \"10\")"));
    EXPECT_THAT(text, HasSubstr("Options of this program"));
    EXPECT_THAT(text, AllOf(HasSubstr("`cohort strategies`"), HasSubstr("`cohort plugins list`")));
    EXPECT_THAT(text, Not(HasSubstr("default: \"\"")));
  }
}

TEST(Options, VariablesAreFlagsToo) {
  const Options options = parse_from(Places{{},
                                            {{"COHORT_MAX_STEPS", "4"},
                                             {"COHORT_EPOCHS", "2"},
                                             {"COHORT_LAYER", "one;two,k=v"},
                                             {"COHORT_SEED", ""},
                                             {"OTHER_MAX_EPOCHS", "9"}},
                                            {}});
  EXPECT_EQ(options.max_steps, 4);
  EXPECT_EQ(options.own.at("epochs"), "2");
  EXPECT_EQ(options.layers.size(), 2u);
  EXPECT_EQ(options.origin("max-steps"), Origin::kEnvironment);
  EXPECT_EQ(options.origin("seed"), Origin::kDefault);
  EXPECT_TRUE(options.warnings.empty());
}

TEST(Options, ABadValueInAVariableNamesTheVariable) {
  EXPECT_THAT(refusal_from(Places{{}, {{"COHORT_DEVICES", "two"}}, {}}), HasSubstr("COHORT_DEVICES: 'two'"));
}

TEST(Options, VariablesOfOtherPurposesAreNoOptions) {
  const Options quiet = parse_from(Places{{},
                                          {{"COHORT_RUN_ID", "1"},
                                           {"COHORT_PLUGIN_PATH", "/p"},
                                           {"COHORT_START_TIME_NS", "1"},
                                           {"COHORT_STORE_FD", "3"},
                                           {"COHORT_NODE_NAME", "node1"},
                                           {"COHORT_TEST_SEED", "7"},
                                           {"COHORT_DEPS_DIR", "/d"}},
                                          {}});
  EXPECT_TRUE(quiet.warnings.empty());
}

TEST(Options, AnUnknownVariableIsRefusedWithTheNearestOne) {
  const auto refusal_of = [](const char* name, const char* value) {
    return refusal_from(Places{{}, {{name, value}}, {}});
  };
  EXPECT_THAT(refusal_of("COHORT_MAX_STEP", "3"),
              AllOf(HasSubstr("'COHORT_MAX_STEP'"), HasSubstr("COHORT_MAX_STEPS?")));
  EXPECT_THAT(refusal_of("COHORT_EPOCH", "3"), HasSubstr("COHORT_EPOCHS?")) << "an option of the program";
  EXPECT_THAT(refusal_of("COHORT_max_steps", "3"), HasSubstr("COHORT_MAX_STEPS?"));
  EXPECT_THAT(refusal_of("COHORT_MAX-STEPS", "3"), HasSubstr("COHORT_MAX_STEPS?"));
  EXPECT_THAT(refusal_of("COHORT_PLUGIN_PAHT", "/p"), HasSubstr("COHORT_PLUGIN_PATH?"));
  EXPECT_THAT(refusal_of("COHORT_CHECKPOINTS_DIR", "/c"), HasSubstr("COHORT_CHECKPOINT_DIR?"));
  EXPECT_EQ(refusal_of("COHORT_MAX_STEP", ""), "nothing was thrown") << "empty is unset";
  EXPECT_EQ(refusal_of("COHORTS_NOPE", "1"), "nothing was thrown") << "of another program";
}

TEST(Options, AVariableThatNothingReadsIsAWarning) {
  const auto warnings_of = [](const char* name) { return parse_from(Places{{}, {{name, "1"}}, {}}).warnings; };
  EXPECT_THAT(warnings_of("COHORT_NOPE"), ElementsAre(AllOf(HasSubstr("'COHORT_NOPE'"), HasSubstr("--help"))));
  EXPECT_THAT(warnings_of("COHORT_A\nB"), ElementsAre(HasSubstr("'COHORT_A\\x0aB'")));
  EXPECT_THAT(warnings_of("COHORT_"), ElementsAre(HasSubstr("'COHORT_'")));
  EXPECT_THAT(warnings_of("COHORT_PORT"), ElementsAre(HasSubstr("'COHORT_PORT'"))) << "no address of a service";
}

TEST(Options, VariablesThatOtherToolsSetAreLeftAlone) {
  const Options quiet = parse_from(Places{{},
                                          {{"COHORT_SERVICE_HOST", "10.0.0.1"},
                                           {"COHORT_SERVICE_PORT", "80"},
                                           {"COHORT_SERVICE_PORT_HTTP", "80"},
                                           {"COHORT_PORT", "tcp://10.0.0.1:80"},
                                           {"COHORT_PORT_80_TCP", "tcp://10.0.0.1:80"},
                                           {"COHORT_PORT_80_TCP_ADDR", "10.0.0.1"},
                                           {"COHORT_PORT_53_UDP_PROTO", "udp"},
                                           {"COHORT_SEED_SERVICE_HOST", "10.0.0.2"},
                                           {"COHORT_SEED_PORT", "tcp://10.0.0.2:80"},
                                           {"COHORT_ROOT", "/opt/cohort"},
                                           {"COHORT_HOME", "/opt/cohort"},
                                           {"COHORT_DIR", "/opt/cohort/lib/cmake/cohort"}},
                                          {}});
  EXPECT_TRUE(quiet.warnings.empty()) << quiet.warnings.front();
}

TEST(Options, FlagsWinOverVariablesAndBothOverCode) {
  Places places;
  places.code.seed = 1;
  places.code.num_nodes = 2;
  places.code.max_steps = 3;
  places.environment = {{"COHORT_SEED", "10"}, {"COHORT_NUM_NODES", "20"}};
  places.arguments = {"--seed=100"};
  const Options options = parse_from(places);
  EXPECT_EQ(options.seed, 100u);
  EXPECT_EQ(options.num_nodes, 20);
  EXPECT_EQ(options.max_steps, 3);
  EXPECT_EQ(options.origin("seed"), Origin::kFlag);
  EXPECT_EQ(options.origin("num-nodes"), Origin::kEnvironment);
  EXPECT_EQ(options.origin("max-steps"), Origin::kCode);
  EXPECT_EQ(options.origin("max-epochs"), Origin::kDefault);
}

TEST(Options, AListReplacesTheWeakerOne) {
  EXPECT_THAT(parse_from(Places{{"--plugin-dir=c"}, {{"COHORT_PLUGIN_DIR", "a;b"}}, {}}).plugin_dirs, ElementsAre("c"));
}

TEST(Options, AutoTakesBackAChoiceOfTheCode) {
  Places places;
  places.code.collective = Spec("shm");
  places.code.strategy = Spec("ddp");
  places.arguments = {"--collective=auto", "--strategy=auto"};
  EXPECT_FALSE(parse_from(places).collective);
  EXPECT_FALSE(parse_from(places).strategy);
}

TEST(Options, AbsurdValuesAreTakenOrRefusedInOneLine) {
  const std::vector<std::string> values{"-1",
                                        "0",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "1e308",
                                        "1e-400",
                                        "nan",
                                        "inf",
                                        "",
                                        "   ",
                                        "-",
                                        "a\nb",
                                        "\x1b[2J",
                                        "\xff\xfe",
                                        std::string(100'000, 'a'),
                                        "0x10",
                                        "1,",
                                        "[",
                                        ":",
                                        "=",
                                        ","};
  const auto check = [](const std::string& message, const std::string& name) {
    if (message == "nothing was thrown") return;
    EXPECT_EQ(message.find_first_of("\n\x1b"), std::string::npos) << message;
    EXPECT_THAT(message, HasSubstr(name));
    EXPECT_LT(message.size(), 1000u) << name;
  };
  const FlagTable table({});
  for (const Flag& flag : table.flags()) {
    for (const std::string& value : values) {
      if (flag.name == "config" && value.size() > 1000) continue;  // the system's reason stands behind the whole name
      check(refusal({"--" + flag.name + "=" + value}), flag.name);
      check(refusal_from(Places{{}, {{variable_of(flag.name), value}}, {}}),
            flag.name == "config" ? "" : variable_of(flag.name));
    }
  }
}

TEST(Options, AnOwnOptionWithACommonNameIsTheProgramsBug) {
  OptionSources sources;
  sources.own = {{"seed", "", ""}};
  EXPECT_THROW(parse_options(sources, {}), std::logic_error);
}

TEST(BatchLimits, AreCountsOrFractions) {
  BatchLimit limit;
  EXPECT_EQ(limit.of(100), 100);
  limit.fraction = 0.29;
  EXPECT_EQ(limit.of(100), 29);
  EXPECT_EQ(limit.of(1), 1);
  EXPECT_EQ(limit.of(0), 0);
  limit.fraction = 1.0;
  EXPECT_EQ(limit.of(7), 7);
  limit = {};
  limit.count = 5;
  EXPECT_EQ(limit.of(3), 3);
  EXPECT_EQ(limit.of(9), 5);
  limit.count = 0;
  EXPECT_EQ(limit.of(9), 0);
}

}  // namespace
}  // namespace cohort::host
