// Checkpoints hold the state of a strategy's layers, which all ranks share or each rank has of its own.
#include <gmock/gmock.h>

#include <cohort/checkpoint.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/message.hpp>

#include "checkpoint/manifest.hpp"
#include "checkpoint/session_tensors.hpp"
#include "checkpoint/strategy_tensors.hpp"
#include "training_job.hpp"

namespace cohort::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

host::StrategyState shared_state() {
  host::StrategyState state;
  state.values["top/count"] = {"12345678", true};
  state.buckets["top/anchor"] = {COHORT_FLOAT64, {{1, std::vector<std::byte>(4 * sizeof(double), std::byte{7})}}, true};
  state.world_size = 1;
  state.versions = {{"ddp", "1.0.0"}, {"top", "2.1.0"}};
  return state;
}

void save(
    const fs::path& folder, const host::StrategyState& state, std::function<void(Script&)> set = [](Script&) {}) {
  ScriptedRun run([&](Script& script) {
    script.strategy = state;
    set(script);
  });
  Learner net;
  Session session(run.runtime(), net, net.configure_optimizers());
  cohort::save(session, folder);
}

/// Returns the state that the strategy is given back on one of `ranks` ranks.
host::StrategyState loaded(const fs::path& folder, int ranks) {
  ScriptedRun run([&](Script& script) {
    script.topology.world_size = ranks;
    script.all_gather = [ranks](const std::string& own) {
      return std::vector<std::string>(static_cast<size_t>(ranks), own);
    };
  });
  Learner net;
  Session session(run.runtime(), net, net.configure_optimizers());
  load(session, folder);
  return run.script().strategy;
}

/// Scripts two ranks, of which the other one sends this rank's texts back changed.
std::function<void(Script&)> two_ranks(std::function<void(std::string&)> change) {
  return [change = std::move(change)](Script& script) {
    script.topology.world_size = 2;
    script.all_gather = [change](const std::string& own) {
      std::string other = own;
      change(other);
      return std::vector{own, other};
    };
  };
}

TEST(StrategyState, IsWrittenOnceIfAllRanksShareIt) {
  const TemporaryFolder folder;
  save(folder.path(), shared_state());
  const fs::path checkpoint = folder.path() / "step-00000000";
  const SafetensorsFile shared = read_safetensors(checkpoint / kSharedFile),
                        own = read_safetensors(checkpoint / rank_file(0));
  for (const char* name : {"cohort.strategy/top/count", "cohort.state/top/anchor/fc1.bias"}) {
    EXPECT_TRUE(shared.find(name)) << name;
    EXPECT_FALSE(own.find(name)) << name;
  }
  const Manifest manifest = parse_manifest(read_manifest_text(checkpoint), "manifest");
  EXPECT_TRUE(manifest.per_rank.empty());
}

TEST(StrategyState, IsGivenToAnyNumberOfRanksIfAllShareIt) {
  const TemporaryFolder folder;
  save(folder.path(), shared_state());
  for (const int ranks : {1, 2, 5}) {
    const host::StrategyState state = loaded(folder.path(), ranks);
    EXPECT_EQ(state.values, shared_state().values);
    EXPECT_EQ(state.buckets, shared_state().buckets);
    EXPECT_EQ(state.world_size, 1);
    EXPECT_EQ(state.versions, shared_state().versions);
  }
}

TEST(StrategyState, OfEachRankIsGivenToAsManyRanksOnly) {
  const TemporaryFolder folder;
  host::StrategyState state = shared_state();
  state.buckets["top/memory"].values[1].resize(4 * sizeof(float));
  state.values["below/seed"].bytes = "1";
  save(folder.path(), state);
  EXPECT_EQ(loaded(folder.path(), 1).buckets, state.buckets);
  EXPECT_THAT(error_text<UserError>([&] { loaded(folder.path(), 2); }),
              HasSubstr("step-00000000 holds STATE 'memory' of layer 'top', value 'seed' of layer 'below' of each of 1 "
                        "rank, which no other number of ranks can go on with; resume with 1 rank"));
}

// The manifest names what each rank has its own of.
TEST(StrategyState, IsToldApartByTheEndsOfVeryLongKeys) {
  constexpr size_t kLongest = 256;  // of archive/1
  const std::string same(kLongest - 1, 'k');
  const TemporaryFolder folder;
  host::StrategyState state;
  state.values["top/" + same + "1"] = {"shared", true};
  state.values["top/" + same + "2"] = {"own", false};
  state.buckets["top/" + same + "1"] = {0, {{1, std::vector<std::byte>(4 * sizeof(float))}}, true};
  state.buckets["top/" + same + "2"] = {0, {{1, std::vector<std::byte>(4 * sizeof(float))}}, false};
  save(folder.path(), state);
  const host::StrategyState found = loaded(folder.path(), 1);
  EXPECT_EQ(found.values, state.values);
  EXPECT_EQ(found.buckets, state.buckets);
  const std::string error = error_text<UserError>([&] { loaded(folder.path(), 2); });
  EXPECT_THAT(error, HasSubstr(same + "2' of layer 'top'"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr(same + "1' of layer 'top'")));
}

TEST(StrategyState, ThatIsSharedAndDiffersEndsTheTraining) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& name) {
    return error_text<TrainingFailed>([&] {
      save(folder.path(), shared_state(), two_ranks([&](std::string& text) {
             if (text.find(name) == std::string::npos || text.find(kSharedFile) != std::string::npos) return;
             auto prints = from_message<Fingerprints>(text, "fingerprints");
             prints.at(name) ^= 1;
             text = to_message(prints);
           }));
    });
  };
  EXPECT_THAT(
      error("cohort.state/top/anchor/fc1.bias"),
      AllOf(HasSubstr("after step 0 rank 1 has other bytes than rank 0 in STATE 'anchor/fc1.bias' of layer 'top'"),
            HasSubstr("which the layer calls shared by all ranks")));
  EXPECT_THAT(error("cohort.strategy/top/count"), HasSubstr("in value 'count' of layer 'top', which the layer calls"));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(StrategyState, OfAnEarlierVersionIsOfEachRank) {
  const TemporaryFolder folder;
  host::StrategyState state = shared_state();
  for (auto& [key, value] : state.values) value.is_shared = false;
  for (auto& [key, buffer] : state.buckets) buffer.is_shared = false;
  save(folder.path(), state);
  const fs::path file = folder.path() / "step-00000000" / kManifestFile;
  Manifest manifest = parse_manifest(read_manifest_text(file.parent_path()), "manifest");
  manifest.per_rank = {"strategy state"};
  manifest.layers.clear();
  host::write_file(file, to_json(manifest));
  const host::StrategyState again = loaded(folder.path(), 1);
  EXPECT_EQ(again.values, state.values);
  EXPECT_EQ(again.buckets, state.buckets);
  EXPECT_TRUE(again.versions.empty());
  EXPECT_THAT(error_text<UserError>([&] { loaded(folder.path(), 2); }), HasSubstr("resume with 1 rank"));
}

}  // namespace
}  // namespace cohort::testing
