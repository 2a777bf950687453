// Checkpoints with changed contents and correct checksums: a resume refuses each in a sentence or trains from it, and
// leaves every file outside of its own folders as it was.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "checkpoint/seal.hpp"
#include "forged_checkpoint.hpp"
#include "full_training.hpp"

namespace cohort::testing {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCheckpointsOfARound = 25;
constexpr uint64_t kMostBytes = 1 << 20;  // bytes of a file

int soak_rounds() {
  const char* given = std::getenv("COHORT_SOAK_ROUNDS");
  return given != nullptr ? std::stoi(given) : 1;
}

uint64_t soak_seed() {
  const char* given = std::getenv("COHORT_TEST_SEED");
  return given != nullptr ? std::stoull(given) : 1;
}

class Forger {
 public:
  explicit Forger(uint64_t seed) : random_(seed) {}

  /// Changes one thing in a checkpoint and returns what.
  std::string forge_one(const fs::path& checkpoint) {
    if (below(2) == 0) return change_manifest(checkpoint);
    const std::string file = below(2) == 0 ? std::string(kSharedFile) : rank_file(0);
    if (below(4) == 0) return change_header(checkpoint, file);
    std::string said;
    forge(checkpoint, file, [&](NamedTensors& tensors) { said = change_tensor(tensors); });
    return file + ": " + said;
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  template <class Values>
  auto one_of(const Values& values) {
    return *std::next(std::begin(values), static_cast<std::ptrdiff_t>(below(std::size(values))));
  }

  std::string change_manifest(const fs::path& checkpoint) {
    static const std::vector<Json> kValues{0,
                                           1,
                                           -1,
                                           2,
                                           0.5,
                                           -0.0,
                                           1e300,
                                           -1e300,
                                           2147483648,
                                           -2147483649,
                                           INT64_MIN,
                                           INT64_MAX,
                                           UINT64_MAX,
                                           true,
                                           false,
                                           nullptr,
                                           "",
                                           "x",
                                           "../../outside",
                                           "/",
                                           std::string(70000, 'a'),
                                           "a\nb",
                                           "\x1b[31m",
                                           Json::array(),
                                           Json::object(),
                                           Json::array({1, 2}),
                                           Json{{"a", 1}}};
    const fs::path file = checkpoint / kManifestFile;
    Json json = Json::parse(host::read_text_file(file, kMostBytes));
    std::vector<std::string> places;
    const Json flat = json.flatten();
    for (const auto& [key, value] : flat.items()) places.push_back(key);
    std::string place = one_of(places);
    // Of a place within others, sometimes one of these is taken.
    while (below(3) == 0 && place.rfind('/') > 0) place.resize(place.rfind('/'));
    const Json::json_pointer pointer(place);
    const std::string before = json.at(pointer).dump().substr(0, 60);
    std::string after = "nothing";
    if (below(6) == 0) {
      Json& parent = json.at(pointer.parent_pointer());
      if (parent.is_array()) {
        parent.erase(std::stoul(pointer.back()));
      } else {
        parent.erase(pointer.back());
      }
    } else {
      json[pointer] = one_of(kValues);
      after = json[pointer].dump().substr(0, 60);
    }
    json.erase("sha256");
    host::write_file(file, sealed(json.dump(1)));
    return place + ": " + before + " is " + after;
  }

  std::string change_header(const fs::path& checkpoint, const std::string& name) {
    std::string bytes = host::read_text_file(checkpoint / name, kMostBytes);
    const std::size_t header = std::min<std::size_t>(bytes.size(), 4096);
    std::string said = name;
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      const std::size_t place = below(header);
      bytes[place] = one_of(std::string_view("0919-{}[]\":,.aIF\x00\x7f\xff", 20));
      said += " byte " + std::to_string(place);
    }
    host::write_file(checkpoint / name, bytes);
    Manifest manifest = read_manifest(checkpoint);
    manifest.files[name] = digest_of_file(checkpoint / name);
    host::write_file(checkpoint / kManifestFile, to_json(manifest));
    return said;
  }

  std::string change_tensor(NamedTensors& tensors) {
    auto& [name, tensor] = tensors.at(below(tensors.size()));
    const std::string before = name;
    switch (below(7)) {
      case 0:
        tensor = tensor.to(one_of(std::vector{at::kBool, at::kByte, at::kLong, at::kHalf, at::kFloat, at::kDouble}));
        break;
      case 1:
        tensor = tensor.reshape({-1}).slice(0, 0, tensor.numel() / 2).clone();
        break;
      case 2:
        tensor = at::cat({tensor.reshape({-1}), tensor.reshape({-1})});
        break;
      case 3:
        tensor = tensor.unsqueeze(0).clone();
        break;
      case 4: {
        static const std::vector<double> kNumbers{0, -1, 1, 255, 1e30, INFINITY, NAN, 9.2e18};
        tensor = at::full_like(
            tensor, at::isFloatingType(tensor.scalar_type()) ? one_of(kNumbers) : static_cast<double>(below(256)));
        break;
      }
      case 5:
        name = one_of(std::vector<std::string>{tensors.at(below(tensors.size())).first + "x", "../../outside/" + name,
                                               "\n" + name, name + "\x1b[0m"});
        break;
      default:
        std::erase_if(tensors, [&](const auto& one) { return one.first == before; });
        return before + " is gone";
    }
    return before + " is " + name + " " + tensor.toString() + " of " + std::to_string(tensor.numel());
  }

  std::mt19937_64 random_;
};

/// Returns the contents of every file below a folder but those of one folder in it.
std::map<std::string, std::string> snapshot(const fs::path& folder, const fs::path& but_for) {
  std::map<std::string, std::string> contents;
  for (auto file = fs::recursive_directory_iterator(folder); file != fs::end(file); ++file) {
    if (file->path() == but_for) {
      file.disable_recursion_pending();
    } else {
      contents[file->path()] = file->is_regular_file() ? host::read_text_file(file->path(), kMostBytes) : "";
    }
  }
  return contents;
}

/// Returns whether a text is a line, maybe with a table of indented lines below it.
bool is_a_sentence(std::string_view text) {
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', end + 1)) {
    if (!text.substr(end + 1).starts_with("  ")) return false;
  }
  return text.size() > 10 && text.size() < 1500 && text.find("c10::") == text.npos;
}

TEST(HostileCheckpoint, IsRefusedInASentenceOrTrainedFrom) {
  const TemporaryFolder all;
  const fs::path first = all.path() / "outside/first", tried = all.path() / "tried";
  train_in_full(first, 2);
  fs::copy(first, tried, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const std::string expected = train_in_full(tried, 4);
  const auto before = snapshot(all.path(), tried);

  Forger forger(soak_seed());
  int refused = 0, equal = 0, others = 0;
  for (int i = 0; i < soak_rounds() * kCheckpointsOfARound; ++i) {
    fs::remove_all(tried);
    fs::copy(first, tried, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const auto checkpoints = find_checkpoints(tried / "checkpoints");
    for (const auto& older : std::span(checkpoints).subspan(1)) fs::remove_all(older.path);
    const std::string change = forger.forge_one(checkpoints.at(0).path);
    SCOPED_TRACE("change " + std::to_string(i) + ": " + change);
    try {
      const bool is_equal = train_in_full(tried, 4) == expected;
      (is_equal ? equal : others) += 1;
      if (!is_equal) std::printf("other results: %s\n", change.c_str());
    } catch (const Error& error) {
      ++refused;
      ASSERT_TRUE(is_a_sentence(error.what())) << error.what();
    } catch (const std::exception& error) {
      FAIL() << error.what();
    }
    ASSERT_EQ(snapshot(all.path(), tried), before);
  }
  std::printf("%d refused, %d equal, %d with other results\n", refused, equal, others);
  EXPECT_GT(refused, 0);
  EXPECT_GT(equal, 0);
}

}  // namespace
}  // namespace cohort::testing
