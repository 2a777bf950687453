// The driver: four devices, all streams, the pinned memory, and one lock for everything but running work.
//
// A stream is a queue. Whoever waits for a place in it runs what comes before, one piece at a time and without the
// lock; where a piece waits for another stream, that stream is run up to the place first. An event names a place that
// exists when somebody begins to wait for it, so waits form no circle.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fakedrv.h"
#include "memory.hpp"
#include "races.hpp"

namespace fakedrv {

/// A piece of work, or a wait for a place of another stream.
struct Item {
  std::string name;
  std::function<int()> run{};  // empty: a wait
  bool crosses_devices = false;
  Stream* other = nullptr;
  uint64_t place = 0;
  const fakedrv_graph* graph = nullptr;  // whose replay it belongs to
};

/// The capture that a stream is part of: while there is one, its graph takes the work of the stream.
struct Capture {
  fakedrv_graph* graph = nullptr;  // null: it enqueues
  uint64_t issued = 0;
  Clock clock{};  // of the captured work alone
};

}  // namespace fakedrv

struct fakedrv_stream {
  int device;
  size_t number;  // of all streams
  std::deque<fakedrv::Item> queue{};
  uint64_t issued = 0, done = 0;
  bool is_running = false;
  bool is_in_use = true;
  std::string failure{};  // of a work; "" for none
  fakedrv::Clock clock{};
  fakedrv::Capture capture{};
};

struct fakedrv_event {
  fakedrv_stream* stream = nullptr;  // null: not recorded
  uint64_t place = 0;
  fakedrv::Clock clock{};
  uint64_t capture = 0;  // the capture that it is part of; 0: none
};

namespace fakedrv {

class Driver {
 public:
  using Lock = std::unique_lock<std::mutex>;

  static Driver& get();

  std::mutex mutex;
  bool is_eager, checks_races;
  uint64_t num_races = 0, num_waits = 0, num_events = 0;

  std::vector<DeviceMemory>& memories() { return memories_; }
  /// Returns -1 for memory of the host.
  int device_of(const void* memory) const;
  void* contents(const void* memory) const;
  std::map<std::byte*, uint64_t>& pinned() { return pinned_; }
  bool is_pinned(const void* memory) const;

  Stream* make_stream(int device);
  Stream* default_stream(int device) { return default_streams_[static_cast<size_t>(device)]; }
  /// Returns null if no stream in use has this number.
  Stream* find_stream(int number);
  const std::deque<Stream>& streams() const { return streams_; }

  /// Enqueues, or records if the stream captures. Throws std::runtime_error for a race or memory that a work cannot
  /// use.
  void launch(Lock& lock, Stream& stream, Item item, const std::vector<fakedrv_access>& accesses);
  /// Enqueues whether or not the stream captures; runs at once if eager.
  void enqueue(Lock& lock, Stream& stream, Item item, const std::vector<fakedrv_access>& accesses);
  /// Orders what comes on the stream behind a place of another one.
  void wait_on_stream(Lock& lock, Stream& stream, Stream& other, uint64_t place, const Clock& clock);
  /// Runs the stream up to a place. What a work of it leaves stays for the next wait.
  void advance(Lock& lock, Stream& stream, uint64_t place);
  /// The same, and throws what a work has left.
  void run_to(Lock& lock, Stream& stream, uint64_t place);
  /// Runs one piece on the way to a place; returns whether it is reached.
  bool run_one(Lock& lock, Stream& stream, uint64_t place);
  /// Waits, as the host, for all that was enqueued on any stream. What a work leaves stays for the next wait.
  void wait_for_all(Lock& lock);
  /// The host has waited for what this clock covers.
  void host_waited(const Clock& clock) { host_.join(clock); }

  // Captures (graph.cpp).
  void begin_capture(Stream& stream, fakedrv_graph& graph);
  /// Throws what has made the capture useless.
  void end_capture(Stream& stream);
  /// Enqueues all that the graph has recorded.
  void replay(Lock& lock, fakedrv_graph& graph, Stream& stream);
  /// Ends a capture that goes on, waits for the replays and takes the graph's memory back.
  void dissolve(Lock& lock, fakedrv_graph& graph);
  /// Orders what the stream captures behind a captured event; a stream that did not capture begins to.
  void follow_captured(Stream& stream, const fakedrv_event& event);
  /// Throws, and makes the capture useless, if the stream captures.
  void refuse_in_capture(const Stream& stream, const std::string& what) const;

 private:
  std::condition_variable changed_;
  std::vector<DeviceMemory> memories_;
  std::map<std::byte*, uint64_t> pinned_;  // bytes, by address
  std::deque<Stream> streams_;             // stable addresses
  std::vector<Stream*> default_streams_;
  Clock host_;
  Races races_;
  uint64_t num_captures_ = 0;

  Driver();
  void take_place(Stream& stream);
  /// Throws for memory that the work cannot use, and for a race with what was noted; notes its accesses.
  void check(const Stream& stream, const Item& item, std::vector<fakedrv_access> accesses, Races& races,
             const Clock& clock, uint64_t number);
  void check_memory(const Stream& stream, const Item& item, const fakedrv_access& access);
  void record(Stream& stream, Item item, const std::vector<fakedrv_access>& accesses);
  void add_to_queue(Lock& lock, Stream& stream, Item item);
  void run_next(Lock& lock, Stream& stream);
};

}  // namespace fakedrv
