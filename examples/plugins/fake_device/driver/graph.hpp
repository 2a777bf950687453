// Captured work: what streams were given while they captured, kept to be enqueued again.
//
// The works stand in the order in which they were captured, which serves all that the streams were ordered by: a replay
// enqueues them one behind the other, with the same addresses. Memory that was allocated on a stream that captures is
// kept for the graph until it is destroyed, in use or free, because each replay uses it again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver.hpp"

struct fakedrv_graph {
  struct Node {
    fakedrv::Item item;
    std::vector<fakedrv_access> accesses;
    bool runs_at_once = false;
  };

  uint64_t id = 0;                         // of its capture
  std::vector<fakedrv_stream*> streams{};  // those that capture, or did; the first began
  std::vector<Node> nodes{};
  fakedrv::Races races{};    // among captured works
  std::string failure{};     // of the capture
  bool is_complete = false;  // the capture has ended without a failure
  fakedrv_event last{};      // the end of the newest replay
};
