#include "checkpoint/manifest.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "error_text.hpp"
#include "weights/sha256.hpp"

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
  manifest.layers = {{"ddp", "1.2.3"}, {"top", ""}};
  manifest.loop = LoopPlace{.epoch = 3, .batches = 7, .batch_size = 32, .samples = 1000, .seed = ~uint64_t{0}};
  manifest.optimizers = {{"Adam", {{{{"lr", 0.1 + 0.2}, {"eps", 1e-300}}, {"fc.weight", "fc.bias"}}}}};
  manifest.files = {{kSharedFile, {10, "a"}}, {rank_file(0), {11, "b"}}, {rank_file(1), {12, "c"}}};
  return manifest;
}

nlohmann::ordered_json without_checksum(const Manifest& manifest) {
  auto json = nlohmann::ordered_json::parse(to_json(manifest));
  json.erase("sha256");
  return json;
}

/// What cohort 0.1.0 wrote.
nlohmann::ordered_json of_format_1(const Manifest& manifest) {
  auto json = without_checksum(manifest);
  json["format_version"] = 1;
  return json;
}

TEST(Manifest, ReadsBackToTheSame) {
  Manifest manifest = some_manifest();
  EXPECT_EQ(parse_manifest(to_json(manifest), "file"), manifest);
  manifest.loop->earlier_batches = 5;
  manifest.loop->earlier_samples = 640;
  manifest.loop->more_steps = -12;
  EXPECT_EQ(parse_manifest(to_json(manifest), "file"), manifest);
  manifest.end = TrainingEnd{"max_steps", "--max-steps=120 is reached", "", "", 120};
  EXPECT_EQ(parse_manifest(to_json(manifest), "file"), manifest);
  manifest.end = TrainingEnd{"enough", "it is enough", "ends", "at=5", {}};
  EXPECT_EQ(parse_manifest(to_json(manifest), "file"), manifest);
  manifest.loop.reset();
  EXPECT_EQ(parse_manifest(to_json(manifest), "file"), manifest);
}

TEST(Manifest, EndsWithTheChecksumOfAllLinesBefore) {
  const std::string text = to_json(some_manifest());
  const size_t last_line = text.rfind('\n', text.size() - 4) + 1;
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text).first(last_line)));
  EXPECT_EQ(text.substr(last_line), " \"sha256\": \"" + hash.finish() + "\"\n}\n");
  EXPECT_EQ(nlohmann::json::parse(text).at("step"), 120);
}

TEST(Manifest, WithAnyBitChangedIsDamaged) {
  const std::string text = to_json(some_manifest());
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    EXPECT_THROW(parse_manifest(damaged, "f"), DamagedCheckpoint) << damaged;
  }
}

TEST(Manifest, WrittenByHandIsDamaged) {
  const auto damage = [](const char* from, const char* to) {
    std::string text = to_json(some_manifest());
    text.replace(text.find(from), std::strlen(from), to);
    return error_text<DamagedCheckpoint>([&] { parse_manifest(text, "ckpt/manifest.json"); });
  };
  for (const auto& [from, to] :
       {std::pair("\"lr\": 0.3", "\"lr\": 0.5"), std::pair("\"step\": 120", "\"step\": 121"),
        std::pair("\"batches\": 7", "\"batches\": 3"), std::pair("\"format_version\": 3", "\"format_version\": 1")}) {
    EXPECT_EQ(damage(from, to),
              "ckpt/manifest.json is not as it was written: its text does not have the checksum at its end");
  }
}

TEST(Manifest, OfFormat1HasNoChecksumAndIsRead) {
  EXPECT_EQ(parse_manifest(of_format_1(some_manifest()).dump(1), "f"), some_manifest());
  auto json = of_format_1(some_manifest());
  json["format_version"] = 2;
  EXPECT_THROW(parse_manifest(json.dump(1), "f"), DamagedCheckpoint);
  json["format_version"] = 0;
  EXPECT_THROW(parse_manifest(json.dump(1), "f"), DamagedCheckpoint);
}

TEST(Manifest, OfANewerFormatIsRefusedAndNotPassedOver) {
  auto json = without_checksum(some_manifest());
  json["format_version"] = 4;
  const auto read = [&] { parse_manifest(json.dump(), "ckpt/manifest.json"); };
  EXPECT_THAT(error_text<UserError>(read), HasSubstr("ckpt/manifest.json was written by a newer cohort (format 4"));
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
  const auto whole = of_format_1(some_manifest());
  for (const auto& [key, value] : whole.items()) {
    auto changed = whole;
    changed.erase(key);
    if (key != "optimizer_steps" && key != "layers") {  // which are left out if there is nothing to say
      EXPECT_THROW(parse_manifest(changed.dump(), "f"), DamagedCheckpoint) << key;
    }
    changed[key] = value.is_string() ? nlohmann::ordered_json(5) : nlohmann::ordered_json("text");
    EXPECT_THROW(parse_manifest(changed.dump(), "f"), DamagedCheckpoint) << key;
  }
}

TEST(Manifest, WithNumbersThatCannotBeIsDamaged) {
  const auto changed = [](const char* pointer, const nlohmann::ordered_json& value) {
    auto json = of_format_1(some_manifest());
    json[nlohmann::ordered_json::json_pointer(pointer)] = value;
    return error_text<DamagedCheckpoint>([&] { parse_manifest(json.dump(), "f"); });
  };
  const auto impossible = [](const std::string& what) { return "f: " + what + " has a value that is not possible"; };
  const auto with = [](const char* one, int its, const char* other, int others) {
    auto loop = of_format_1(some_manifest()).at("loop");
    loop[one] = its;
    loop[other] = others;
    return loop;
  };
  EXPECT_EQ(changed("/world_size", 0), impossible("world_size"));
  EXPECT_EQ(changed("/world_size", 3), impossible("list of files"));  // there is none of rank 2
  EXPECT_EQ(changed("/world_size", 2'000'000'000), impossible("world_size"));
  EXPECT_EQ(changed("/sequence", uint64_t{1} << 63), impossible("sequence"));
  EXPECT_EQ(changed("/step", uint64_t{1} << 63), impossible("step"));
  EXPECT_THAT(changed("/step", -1), HasSubstr("'step' is no whole number that is possible there"));
  EXPECT_EQ(changed("/step", 121), impossible("optimizer_steps"));
  EXPECT_EQ(changed("/optimizer_steps", {120, 7}), impossible("number of optimizer_steps"));
  EXPECT_EQ(changed("/optimizer_steps", {99}), impossible("optimizer_steps"));
  EXPECT_EQ(changed("/loop/fit", 0), impossible("loop.fit"));
  EXPECT_EQ(changed("/loop/epoch", -1), impossible("loop.epoch"));
  EXPECT_EQ(changed("/loop/epoch", int64_t{1} << 62), impossible("loop.epoch"));
  EXPECT_EQ(changed("/loop/batches", -5), impossible("loop.batches"));
  EXPECT_EQ(changed("/loop/batches", int64_t{1} << 62), impossible("loop.batches"));
  EXPECT_EQ(changed("/loop/samples", -2), impossible("loop.samples"));
  EXPECT_EQ(changed("/loop", with("earlier_batches", 8, "earlier_samples", 10)), impossible("loop.earlier_batches"));
  EXPECT_EQ(changed("/loop", with("earlier_batches", 5, "earlier_samples", 1001)), impossible("loop.earlier_samples"));
  const auto end = [](const char* text, int limit) {
    return nlohmann::ordered_json{
        {"exit_reason", "max_steps"}, {"text", text}, {"callback", ""}, {"settings", ""}, {"limit", limit}};
  };
  EXPECT_EQ(changed("/end", end("two\nlines", 1)), impossible("end"));
  EXPECT_EQ(changed("/end", end("it is enough", -1)), impossible("end.limit"));
  EXPECT_EQ(changed("/loop/batch_size", 0), impossible("loop.batch_size"));
  const auto scaled = [&](const char* name, const nlohmann::ordered_json& value) {
    nlohmann::ordered_json scale{{"factor", 65536}, {"finite_steps", 3}, {"skipped", 1}};
    scale[name] = value;
    return changed("/loss_scale", scale);
  };
  for (const double factor : {0.0, -1.0, 1e300, -1e300}) {
    EXPECT_EQ(scaled("factor", factor), impossible("loss_scale.factor"));
  }
  EXPECT_EQ(scaled("factor", 0.5), "");
  EXPECT_EQ(scaled("finite_steps", -1), impossible("loss_scale.finite_steps"));
  EXPECT_EQ(scaled("skipped", uint64_t{1} << 63), impossible("loss_scale.skipped"));
  const char* const lr = "/optimizers/0/groups/0/options/lr";
  EXPECT_THAT(changed(lr, nullptr), HasSubstr("type must be number"));
  EXPECT_EQ(changed(lr, -0.1), impossible("setting 'lr' of an optimizer"));
  EXPECT_EQ(changed(lr, 1e300), impossible("setting 'lr' of an optimizer"));
  EXPECT_EQ(changed(lr, 0), "");
}

}  // namespace
}  // namespace cohort
