#include "checkpoint/manifest.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "error_text.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;

Manifest some_manifest() {
  Manifest manifest;
  manifest.cohort_version = "1.2.3";
  manifest.torch_version = "2.11.0";
  manifest.sequence = 4;
  manifest.step = 120;
  manifest.optimizer_steps = {120};
  manifest.world_size = 2;
  manifest.strategy = "ddp";
  manifest.per_rank = {"weights"};
  manifest.loop = LoopPlace{.epoch = 3, .batches = 7, .batch_size = 32, .samples = 1000, .seed = ~uint64_t{0}};
  manifest.optimizers = {{"Adam", {{{{"lr", 0.1 + 0.2}, {"eps", 1e-300}}, {"fc.weight", "fc.bias"}}}}};
  manifest.files = {{kSharedFile, {10, "a"}}, {rank_file(0), {11, "b"}}, {rank_file(1), {12, "c"}}};
  return manifest;
}

TEST(Manifest, ReadsBackToTheSame) {
  Manifest manifest = some_manifest();
  EXPECT_EQ(parse_manifest(to_json(manifest), "file"), manifest);
  manifest.loop.reset();
  EXPECT_EQ(parse_manifest(to_json(manifest), "file"), manifest);
}

TEST(Manifest, OfANewerFormatIsRefusedAndNotPassedOver) {
  auto json = nlohmann::json::parse(to_json(some_manifest()));
  json["format_version"] = 2;
  const auto read = [&] { parse_manifest(json.dump(), "ckpt/manifest.json"); };
  EXPECT_THAT(error_text<UserError>(read), HasSubstr("ckpt/manifest.json was written by a newer cohort (format 2"));
  EXPECT_EQ(error_text<DamagedCheckpoint>([&] {
              try {
                read();
              } catch (const DamagedCheckpoint&) {
                throw;
              } catch (const UserError&) {
              }
            }),
            "");
}

TEST(Manifest, ThatIsCutOffOrForeignIsDamaged) {
  const std::string text = to_json(some_manifest());
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_THROW(parse_manifest(text.substr(0, length), "f"), DamagedCheckpoint) << length;
  }
  for (const char* foreign :
       {"[]", "{}", "null", "{\"format\":\"other\"}", "{\"format\":\"cohort checkpoint\"}", "\xff"}) {
    EXPECT_THROW(parse_manifest(foreign, "f"), DamagedCheckpoint) << foreign;
  }
}

TEST(Manifest, WithAnyEntryMissingOrOfAnotherTypeIsDamaged) {
  const auto whole = nlohmann::json::parse(to_json(some_manifest()));
  for (const auto& [key, value] : whole.items()) {
    auto changed = whole;
    changed.erase(key);
    if (key != "optimizer_steps") {  // which are left out where they are all the same
      EXPECT_THROW(parse_manifest(changed.dump(), "f"), DamagedCheckpoint) << key;
    }
    changed[key] = value.is_string() ? nlohmann::json(5) : nlohmann::json("text");
    EXPECT_THROW(parse_manifest(changed.dump(), "f"), DamagedCheckpoint) << key;
  }
}

TEST(Manifest, WithNumbersThatCannotBeIsDamaged) {
  const auto changed = [](const char* pointer, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(to_json(some_manifest()));
    json[nlohmann::json::json_pointer(pointer)] = value;
    return json.dump();
  };
  EXPECT_THROW(parse_manifest(changed("/world_size", 0), "f"), DamagedCheckpoint);
  EXPECT_THROW(parse_manifest(changed("/world_size", 3), "f"), DamagedCheckpoint);  // there is no file of rank 2
  EXPECT_THROW(parse_manifest(changed("/world_size", 2'000'000'000), "f"), DamagedCheckpoint);
  EXPECT_THROW(parse_manifest(changed("/optimizer_steps", {120, 7}), "f"), DamagedCheckpoint);  // of one optimizer
  EXPECT_THROW(parse_manifest(changed("/loop/epoch", -1), "f"), DamagedCheckpoint);
  EXPECT_THROW(parse_manifest(changed("/loop/batches", -5), "f"), DamagedCheckpoint);
  EXPECT_THROW(parse_manifest(changed("/optimizers/0/groups/0/options/lr", nullptr), "f"), DamagedCheckpoint);
}

}  // namespace
}  // namespace cohort
