// The launcher's side of a node agent: its process (ssh, or the agent itself) and the channel to it.
//
// Owns the process, which is gone when the NodeLink is. `send` may be called from any thread, everything else from the
// one that made it.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cohort/launch/descriptor.hpp>
#include <cohort/launch/rank_process.hpp>
#include "message.hpp"

namespace cohort::nodes {

class NodeLink {
 public:
  /// Starts `command`. Throws UserError where that is impossible.
  NodeLink(std::string host, int first_rank, const std::vector<std::string>& command);
  ~NodeLink() { close(); }
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  const std::string& host() const { return host_; }
  bool is_greeted() const { return reader_.is_greeted(); }
  /// What cannot be sent is lost: the output ends soon after.
  void send(const Message& message);
  int output() const { return output_.number(); }  ///< to be polled; -1 once it has ended
  int errors() const { return errors_.number(); }
  /// Reads what there is; false once the output has ended.
  bool read_output();
  void read_errors();
  /// The next message of the agent. Throws PeerFailed where there is nonsense.
  std::optional<Message> next() { return reader_.next(); }

  /// The exit code of the process, which has closed its output and ends now.
  int exit_code();
  /// What ssh has said last, not what ranks wrote.
  const std::string& said() const { return said_; }
  /// Ends the channel, and with it the agent and its ranks; waits for the process here.
  void close();

  std::atomic<bool> is_told = false;  ///< the job was sent
  bool is_ready = false;              ///< the job can start there
  bool is_started = false;            ///< it was told to
  bool is_over = false;               ///< nothing more is expected of it

 private:
  std::string host_;
  std::mutex sending_;
  launch::Descriptor input_, output_, errors_;
  MessageReader reader_{false};
  std::string said_;
  launch::RankProcess process_;
};

}  // namespace cohort::nodes
