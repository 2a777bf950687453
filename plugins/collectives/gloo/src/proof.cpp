#include "proof.hpp"

#include <utility>
#include <vector>

#include "tags.hpp"

namespace cohort::gloo {

namespace {

using Bits = sdk::Proof::Bytes;

/// One end of a connection.
struct Challenge {
  int peer;
  int connection;
  Bits own_random{}, peer_random{};
  Bits own_answer{}, peer_answer{};
};

/// Returns the text whose MAC is the answer of an end of a connection.
std::string answer_text(int connection, int from, int to, const Bits& random_of_from, const Bits& random_of_to) {
  std::string text = "cohort/gloo: connection " + std::to_string(connection) + ", rank " + std::to_string(from) +
                     " to rank " + std::to_string(to) + "\n";
  text.append(random_of_from.begin(), random_of_from.end());
  text.append(random_of_to.begin(), random_of_to.end());
  return text;
}

/// A peer whose message does not come.
struct Missing {
  int peer;
  std::string reason;
};

/// Sends a member of each challenge and receives another one. Throws Missing.
void swap_bits(Mesh& mesh, std::vector<Challenge>& challenges, int32_t tag, Bits Challenge::*own,
               Bits Challenge::*peers, std::chrono::steady_clock::time_point deadline) {
  std::vector<std::pair<int, Transfer>> transfers;
  int peer = -1;
  try {
    for (Challenge& challenge : challenges) {
      peer = challenge.peer;
      Bits& sent = challenge.*own;
      Bits& received = challenge.*peers;
      transfers.emplace_back(peer, mesh.send_on(challenge.connection, peer, sent.data(), sent.size(), tag));
      transfers.emplace_back(peer, mesh.receive_on(challenge.connection, peer, received.data(), received.size(), tag));
    }
    for (auto& transfer : transfers) {
      peer = transfer.first;
      transfer.second.wait_until(deadline);
    }
  } catch (const LinkBroken& broken) {
    throw Missing{peer, broken.what()};
  }
}

}  // namespace

Verdict prove(Mesh& mesh, const sdk::Proof& proof, int rank, int size, std::chrono::steady_clock::time_point deadline) {
  std::vector<Challenge> challenges;
  for (int peer = 0; peer < size; ++peer) {
    for (int connection = 0; peer != rank && connection < Mesh::kConnections; ++connection) {
      Challenge& challenge = challenges.emplace_back();
      challenge.peer = peer;
      challenge.connection = connection;
      challenge.own_random = proof.random();
    }
  }
  try {
    swap_bits(mesh, challenges, kRandomTag, &Challenge::own_random, &Challenge::peer_random, deadline);
    for (Challenge& c : challenges) {
      c.own_answer = proof.mac(answer_text(c.connection, rank, c.peer, c.own_random, c.peer_random));
    }
    swap_bits(mesh, challenges, kAnswerTag, &Challenge::own_answer, &Challenge::peer_answer, deadline);
  } catch (const Missing& missing) {
    return {Answer::kMissing, missing.peer, missing.reason};
  }
  for (const Challenge& c : challenges) {
    const std::string text = answer_text(c.connection, c.peer, rank, c.peer_random, c.own_random);
    if (!proof.is_mac_of(text, c.peer_answer)) return {Answer::kWrong, c.peer};
  }
  return {};
}

}  // namespace cohort::gloo
