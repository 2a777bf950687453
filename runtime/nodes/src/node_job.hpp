// What a node agent is told to run.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <cohort/launch/launch.hpp>

namespace cohort::nodes {

constexpr int kHeartbeatsInASilence = 6;  ///< so that a few may be late

struct NodeJob {
  launch::LaunchJob launch;
  std::string folder;                                 ///< where the ranks run
  std::chrono::milliseconds longest_silence{60'000};  ///< of the launcher
  bool logs_as_json = false;
};

std::string to_text(const NodeJob& job);
/// Throws PeerFailed where the text is none of to_text.
NodeJob node_job_from(std::string_view text);

}  // namespace cohort::nodes
