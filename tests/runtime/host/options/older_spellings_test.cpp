// Flags of earlier products that stand for flags of today.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "given.hpp"

namespace cohort::host {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// The line that is logged.
std::string line(std::vector<std::string> arguments) {
  const auto warnings = parse(std::move(arguments)).warnings;
  return warnings.size() == 1 ? warnings.front() : std::to_string(warnings.size()) + " lines";
}

TEST(OlderSpellings, GpusAreDevicesOfAGpu) {
  const Options count = parse({"--gpus=8"});
  EXPECT_EQ(count.devices.count, 8);
  EXPECT_EQ(count.accelerator, "gpu");
  EXPECT_EQ(count.origin("devices"), Origin::kFlag);
  EXPECT_THAT(parse({"--gpus=[0,1]"}).devices.ids, ElementsAre(0, 1));
  EXPECT_THAT(parse({"--gpus", "0,1"}).devices.ids, ElementsAre(0, 1));
  EXPECT_THAT(parse({"--gpus=[0]"}).devices.ids, ElementsAre(0));
  EXPECT_EQ(parse({"--gpus", "-1"}).devices.kind, Devices::Kind::kAll);
}

TEST(OlderSpellings, AnAcceleratorThatIsGivenStays) {
  EXPECT_EQ(parse({"--gpus=8", "--accelerator=cuda"}).accelerator, "cuda");
  EXPECT_EQ(parse_from(Places{{"--gpus=8"}, {{"COHORT_ACCELERATOR", "cpu"}}, {}}).accelerator, "gpu");
}

TEST(OlderSpellings, NodesAndBackendHaveOneToo) {
  EXPECT_EQ(parse({"--nb-gpu-nodes=12"}).num_nodes, 12);
  EXPECT_EQ(parse({"--nb_gpu_nodes", "12"}).num_nodes, 12);
  EXPECT_EQ(parse({"--distributed-backend=ddp2"}).strategy, Spec("ddp2"));
  EXPECT_FALSE(parse({"--distributed-backend=auto"}).strategy);
  EXPECT_EQ(parse({"--process-group-backend=gloo"}).collective, Spec("gloo"));
  EXPECT_EQ(parse({"--process_group_backend", "hier,node=shm"}).collective,
            parse({"--collective=hier,node=shm"}).collective);
}

TEST(OlderSpellings, AmpIsAPrecision) {
  using enum Precision;
  EXPECT_EQ(parse({"--use-amp"}).precision, k16Mixed);
  EXPECT_EQ(parse({"--use_amp=true"}).precision, k16Mixed);
  EXPECT_EQ(parse({"--use-amp=false"}).precision, k32);
  EXPECT_EQ(parse({"--amp-level=O0"}).precision, k32);
  EXPECT_EQ(parse({"--amp-level=O1"}).precision, k16Mixed);
  EXPECT_EQ(parse({"--amp-level=O3"}).precision, k16True);
  EXPECT_EQ(parse({"--use-amp", "--amp-level=O3"}).precision, k16True);
  EXPECT_EQ(parse({"--use-amp=false", "--amp-level=O2"}).precision, k32) << "the level of nothing";
  EXPECT_EQ(line({"--amp-level=O2"}), "--amp-level is an older spelling; write --precision=16-mixed");
  EXPECT_EQ(
      refusal({"--amp-level=O4"}),
      "--amp-level: 'O4' is no value of it; there are O0 for 32, O1 for 16-mixed, O2 for 16-mixed, O3 for 16-true");
  EXPECT_THAT(refusal({"--use-amp", "--precision=32"}), HasSubstr("--precision is given"));
}

TEST(OlderSpellings, OneLineEachTellsWhatToWrite) {
  EXPECT_EQ(line({"--gpus=2"}), "--gpus is an older spelling; write --accelerator=gpu --devices=2");
  EXPECT_EQ(line({"--gpus=0,1"}), "--gpus is an older spelling; write --accelerator=gpu --devices=[0,1]");
  EXPECT_EQ(line({"--nb-gpu-nodes=12"}), "--nb-gpu-nodes is an older spelling; write --num-nodes=12");
  EXPECT_EQ(line({"--distributed-backend=dp"}), "--distributed-backend is an older spelling; write --strategy=dp");
  EXPECT_EQ(line({"--process-group-backend=shm"}),
            "--process-group-backend is an older spelling; write --collective=shm");
  EXPECT_EQ(parse({"--gpus=2", "--nb-gpu-nodes=12", "--distributed-backend=dp"}).warnings.size(), 3u);
  EXPECT_THAT(parse({"--devices=2"}).warnings, IsEmpty());
}

TEST(OlderSpellings, BothSpellingsAreRefusedNamingBoth) {
  EXPECT_THAT(refusal({"--gpus=2", "--devices=2"}), AllOf(HasSubstr("--gpus"), HasSubstr("--devices is given")));
  EXPECT_THAT(refusal({"--strategy=ddp", "--distributed-backend=dp"}),
              AllOf(HasSubstr("--distributed-backend"), HasSubstr("--strategy is given")));
  EXPECT_THAT(refusal({"--num-nodes=2", "--nb-gpu-nodes=2"}), HasSubstr("--nb-gpu-nodes"));
  EXPECT_THAT(refusal({"--process-group-backend=shm", "--collective=shm"}),
              AllOf(HasSubstr("--process-group-backend"), HasSubstr("--collective is given")));
  EXPECT_THAT(refusal_from(Places{{}, {{"COHORT_GPUS", "2"}, {"COHORT_DEVICES", "2"}}, {}}),
              AllOf(HasSubstr("COHORT_GPUS"), HasSubstr("COHORT_DEVICES is given")));
}

TEST(OlderSpellings, AStrongerPlaceDecidesInEitherSpelling) {
  const Options modern = parse_from(Places{{"--num-nodes=3"}, {{"COHORT_NB_GPU_NODES", "2"}}, {}});
  EXPECT_EQ(modern.num_nodes, 3);
  EXPECT_THAT(modern.older_spellings, IsEmpty());
  EXPECT_THAT(modern.warnings, IsEmpty());
  const Options older = parse_from(Places{{"--nb-gpu-nodes=3"}, {{"COHORT_NUM_NODES", "2"}}, {}});
  EXPECT_EQ(older.num_nodes, 3);
  EXPECT_EQ(older.older_spellings.at("num-nodes"), "--nb-gpu-nodes");
}

TEST(OlderSpellings, VariablesAndFilesHaveThem) {
  const Options variable = parse_from(Places{{}, {{"COHORT_DISTRIBUTED_BACKEND", "ddp"}}, {}});
  EXPECT_EQ(variable.strategy, Spec("ddp"));
  EXPECT_EQ(variable.older_spellings.at("strategy"), "COHORT_DISTRIBUTED_BACKEND");

  std::string name = (fs::temp_directory_path() / "cohort-older-XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  std::ofstream(folder / "run.toml") << "gpus = [0, 1]\nnb_gpu_nodes = 2\n";
  const Options file = parse({"--config=" + (folder / "run.toml").string()});
  EXPECT_THAT(file.devices.ids, ElementsAre(0, 1));
  EXPECT_EQ(file.accelerator, "gpu");
  EXPECT_EQ(file.num_nodes, 2);
  EXPECT_EQ(file.origin("num-nodes"), Origin::kConfig);
  std::ofstream(folder / "run.toml") << "gpus = 2\ndevices = 2\n";
  EXPECT_THAT(refusal({"--config=" + (folder / "run.toml").string()}), HasSubstr("run.toml:1: gpus"));
  fs::remove_all(folder);
}

TEST(OlderSpellings, MistakesNameWhatWasWritten) {
  EXPECT_THAT(refusal({"--gpus=two"}), HasSubstr("--gpus: 'two'"));
  EXPECT_THAT(refusal({"--nb-gpu-nodes=0"}), HasSubstr("--nb-gpu-nodes"));
  EXPECT_THAT(refusal({"--distributed-backend=DP"}), HasSubstr("--distributed-backend"));
  EXPECT_THAT(refusal({"--process-group-backend=GLOO"}), HasSubstr("--process-group-backend"));
}

TEST(OlderSpellings, ThePrintedConfigurationIsModern) {
  const std::string text = print_config(parse({"--gpus=2", "--nb-gpu-nodes=3", "--distributed-backend=ddp"}));
  EXPECT_THAT(text, AllOf(HasSubstr("[strategy]\nname = \"ddp\"  # flag"), HasSubstr("accelerator = \"gpu\"  # flag"),
                          HasSubstr("devices = 2  # flag"), HasSubstr("num-nodes = 3  # flag")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("gpus")), Not(HasSubstr("nb-gpu")), Not(HasSubstr("backend"))));
}

}  // namespace
}  // namespace cohort::host
