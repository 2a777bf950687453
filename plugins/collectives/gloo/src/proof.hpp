// Ranks prove to each other, over a mesh that has just connected, that they know the group's key.
//
// Gloo takes whoever connects to its port and sends a small number for a rank. So both ends of each of the two
// connections of a pair challenge each other: each sends random bits, and answers those of the other end with a MAC
// over the connection, the direction, and the random bits of both. An answer fits this connection alone, so that
// nothing can be sent back or sent again. Threads: any, one at a time.
#pragma once

#include <chrono>
#include <string>

#include <cohort/sdk/proof.hpp>

#include "mesh.hpp"

namespace cohort::gloo {

enum class Answer { kRight, kWrong, kMissing };

/// kRight if all peers have answered rightly, else the failure of one of them.
struct Verdict {
  Answer answer = Answer::kRight;
  int peer = -1;
  std::string reason{};  // that an answer is missing
};

/// Challenges all peers, and answers them. Collective.
Verdict prove(Mesh& mesh, const sdk::Proof& proof, int rank, int size, std::chrono::steady_clock::time_point deadline);

}  // namespace cohort::gloo
