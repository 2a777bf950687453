// Takes what the ranks of a node write and hands it on, whole lines at a time.
//
// Owns the pipes and the thread that reads them. A rank's ends are given away when it starts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <cohort/launch/descriptor.hpp>
#include <cohort/launch/rank_process.hpp>
#include "message.hpp"

namespace cohort::nodes {

class OutputPump {
 public:
  using Deliver = std::function<void(MessageKind stream, int rank, std::string_view bytes)>;

  /// For `ranks` ranks from `first_rank`; `deliver` is called on the pump's thread. Throws UserError.
  OutputPump(int first_rank, int ranks, Deliver deliver);
  ~OutputPump() { finish(); }
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  /// A rank's streams; its standard input is empty.
  launch::StandardStreams streams_of(int rank) const;
  /// Closes this process's copies of them, once the rank has its own.
  void release(int rank);
  /// Delivers what has been written until now; nothing is read afterwards.
  void finish();

 private:
  struct Stream {
    MessageKind kind;
    int rank;
    launch::Channel pipe;
    std::string held = {};  ///< the beginning of a line
  };

  std::size_t index_of(int rank) const { return static_cast<std::size_t>(rank - first_rank_) * 2; }
  void run();
  bool read_some(Stream& stream);
  void hand_on(Stream& stream, bool also_half_a_line);

  int first_rank_;
  Deliver deliver_;
  launch::Descriptor nothing_;
  launch::Channel stop_;
  std::vector<Stream> streams_;  // of each rank: output, errors; last: errors of this process
  std::thread thread_;
};

}  // namespace cohort::nodes
