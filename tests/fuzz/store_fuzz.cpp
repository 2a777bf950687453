// Whatever others write into the job's store, or tell of themselves: ranks agree, or say in a sentence why not; and a
// rank that fails judges by what can be read of it.
#include <cohort/diagnosis/deadlock.hpp>
#include <cohort/diagnosis/last_words.hpp>
#include <cohort/host/in_quotes.hpp>
#include "hostile_store.hpp"
#include "store/meeting.hpp"

namespace {

using namespace cohort;

constexpr int kRanks = 3;

void agree(fuzz::Input& input) {
  fuzz::HostileStore hostile(input);
  host::AbiStore abi(hostile);
  host::PrefixedStore store(abi.get(), "cohort/1/host/");
  const host::Agreement agreement{store, input.byte() % kRanks, kRanks, std::chrono::milliseconds(1), "rank 0"};
  try {
    fuzz::accepts<PeerFailed>([&] { host::agree(agreement, "options", "seed=1\nlr=2", "the options differ"); });
  } catch (const UserError& error) {  // with a table of what the ranks brought
    fuzz::require(std::string_view(error.what()).starts_with("the options differ"), error.what());
  }
}

void meet(fuzz::Input& input) {
  host::Topology topology;
  topology.rank = input.byte() % kRanks;
  topology.world_size = topology.local_world_size = kRanks;
  topology.run_id = "1";
  fuzz::HostileStore store(input);
  constexpr std::chrono::milliseconds kShort{1};
  const host::Agreement agreement{store, topology.rank, kRanks, kShort, "this rank"};
  fuzz::accepts<Error>([&] { host::meet({agreement, topology, false, kShort}, "options", "seed=1"); });
}

void wait_for_each_other(fuzz::Input& input) {
  std::vector<Waiting> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (const auto waiting = waiting_from(input.text())) ranks.push_back(*waiting);
  }
  if (const auto found = deadlock(ranks)) fuzz::require_sentence(host::on_one_line(*found));
}

void judge(fuzz::Input& input) {
  Evidence evidence;
  evidence.rank = 0;
  evidence.own = {4, true, "all_reduce failed", {}};
  Operation& own = evidence.own.operations.emplace_back();
  own.communicator = "default/world";
  own.call = "all_reduce mean of float32[4]";
  own.status = "UNAVAILABLE";
  evidence.heard_all = input.byte() % 2 == 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    evidence.states.push_back(ProcessState{input.byte() % 4});
    evidence.peers.push_back({rank, 0, "", "", 0});
    const std::string introduction = input.text();
    if (rank != 0) fuzz::accepts<PeerFailed>([&] { evidence.peers.back() = peer_from(rank, introduction); });
    evidence.words.push_back(rank == 0 ? std::nullopt : last_words_from(input.text()));
    if (!evidence.words.back()) continue;
    const std::string text = to_text(*evidence.words.back());
    const auto again = last_words_from(text);
    fuzz::require(again && to_text(*again) == text, "changed by being written: " + text);
  }
  fuzz::require_sentence(sentence_of(cohort::judge(evidence), evidence.own.error));
  if (const auto told = verdict_from(input.text())) fuzz::require_sentence(sentence_of(*told, evidence.own.error));
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.byte() % 4) {
    case 0:
      agree(input);
      break;
    case 1:
      judge(input);
      break;
    case 2:
      meet(input);
      break;
    default:
      wait_for_each_other(input);
  }
  return 0;
}
