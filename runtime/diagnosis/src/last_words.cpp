#include <cohort/diagnosis/last_words.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/machine.hpp>
#include <cohort/host/message.hpp>
#include <cohort/host/process_state.hpp>

namespace cohort {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Peer, pid, host, space, started)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Operation, communicator, number, call, purpose, status, begun, ended, name, dtype,
                                   count, bytes, peers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Waiting, operations, begun)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LastWords, exit_code, in_operation, error, operations)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Verdict, causes, ranks_disagree)

namespace {

// The texts will stand in a sentence.
void put_on_one_line(std::initializer_list<std::string*> texts) {
  for (std::string* const text : texts) *text = host::on_one_line(*text);
}

void put_on_one_line(std::vector<Operation>& operations) {
  for (Operation& one : operations) {
    put_on_one_line({&one.communicator, &one.call, &one.purpose, &one.status, &one.name, &one.dtype});
  }
}

}  // namespace

std::string introduction() {
  const host::ProcessId own = host::own_process();
  return to_text(Peer{0, own.pid, host::host_name(), own.space, own.started});
}

Peer peer_from(int rank, const std::string& introduction) {
  auto peer = from_text<Peer>(introduction);
  if (!peer) {
    throw PeerFailed(
        "rank " + std::to_string(rank) +
        " introduced itself with something that cannot be read; check that all ranks run the same program");
  }
  put_on_one_line({&peer->host, &peer->space});
  peer->rank = rank;
  return *peer;
}

std::string to_text(const host::FlightRecorder::Standing& standing) {
  Waiting rank{operations_of(standing.running, 1), {}};
  for (Operation& one : rank.operations) one.begun = one.ended = 0;
  for (const auto& [name, number] : standing.begun) rank.begun[name] = number;
  return to_text(rank);
}

std::optional<Waiting> waiting_from(const std::string& text) {
  auto rank = from_text<Waiting>(text);
  if (rank) put_on_one_line(rank->operations);
  return rank;
}

std::string to_text(const LastWords& words) {
  return to_text<LastWords>(words);
}

std::optional<LastWords> last_words_from(const std::string& text) {
  auto words = from_text<LastWords>(text);
  if (!words) return std::nullopt;
  put_on_one_line({&words->error});
  put_on_one_line(words->operations);
  return words;
}

std::string to_text(const Verdict& verdict) {
  return to_text<Verdict>(verdict);
}

std::optional<Verdict> verdict_from(const std::string& text) {
  auto verdict = from_text<Verdict>(text);
  if (verdict) put_on_one_line({&verdict->causes});
  return verdict;
}

}  // namespace cohort
