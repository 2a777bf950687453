#include "graph.hpp"

#include <memory>
#include <stdexcept>
#include <utility>

#include "guarded.hpp"

namespace fakedrv {
namespace {

std::string name_of(const Stream& stream) {
  return "stream " + std::to_string(stream.number);
}

}  // namespace

void Driver::begin_capture(Stream& stream, fakedrv_graph& graph) {
  refuse_in_capture(stream, "the beginning of a capture");
  if (&stream == default_stream(stream.device))
    throw std::runtime_error("the default stream of a device cannot capture");
  graph.id = ++num_captures_;
  graph.streams = {&stream};
  stream.capture = {.graph = &graph};
}

void Driver::refuse_in_capture(const Stream& stream, const std::string& what) const {
  if (!stream.capture.graph) return;
  const std::string text = what + " on " + name_of(stream) + ": operation not permitted when stream is capturing";
  if (stream.capture.graph->failure.empty()) stream.capture.graph->failure = text;
  throw std::runtime_error(text);
}

void Driver::record(Stream& stream, Item item, const std::vector<fakedrv_access>& accesses) {
  Capture& capture = stream.capture;
  check(stream, item, accesses, capture.graph->races, capture.clock, capture.issued + 1);
  capture.clock.advance(stream.number, ++capture.issued);
  capture.graph->nodes.push_back({std::move(item), accesses, false});
}

void Driver::follow_captured(Stream& stream, const fakedrv_event& event) {
  fakedrv_graph* const graph = event.stream->capture.graph;
  if (event.capture == 0) {
    refuse_in_capture(stream, "a wait for an event that was not captured, of " + name_of(*event.stream) + ",");
  }
  if (!graph || graph->id != event.capture) {
    throw std::runtime_error(name_of(stream) + " waits for an event of a capture that has ended");
  }
  if (!stream.capture.graph) {
    stream.capture = {.graph = graph};
    graph->streams.push_back(&stream);
  }
  if (stream.capture.graph != graph)
    throw std::runtime_error(name_of(stream) + " waits for an event of another capture");
  stream.capture.clock.join(event.clock);
}

void Driver::end_capture(Stream& stream) {
  fakedrv_graph* const graph = stream.capture.graph;
  if (!graph || graph->streams.front() != &stream) {
    throw std::runtime_error("no capture has begun on " + name_of(stream));
  }
  std::string failure = graph->failure;
  for (Stream* const other : graph->streams) {
    if (failure.empty() && stream.capture.clock.at(other->number) < other->capture.issued) {
      failure = name_of(*other) + " has captured work that nothing orders before the end of the capture";
    }
  }
  for (Stream* const other : graph->streams) other->capture = {};
  graph->is_complete = failure.empty();
  if (!failure.empty()) throw std::runtime_error(failure);
}

void Driver::replay(Lock& lock, fakedrv_graph& graph, Stream& stream) {
  refuse_in_capture(stream, "a replay");
  if (!graph.is_complete) throw std::runtime_error("a graph whose capture has not ended well cannot be replayed");
  const fakedrv_event& last = graph.last;
  if (last.stream) wait_on_stream(lock, stream, *last.stream, last.place, last.clock);
  for (const fakedrv_graph::Node& node : graph.nodes) {
    Item item = node.item;
    item.graph = &graph;
    enqueue(lock, stream, std::move(item), node.accesses);
    if (node.runs_at_once) advance(lock, stream, stream.issued);
  }
  graph.last = {&stream, stream.issued, stream.clock, 0};
}

void Driver::dissolve(Lock& lock, fakedrv_graph& graph) {
  for (Stream* const stream : graph.streams) {
    if (stream->capture.graph == &graph) stream->capture = {};
  }
  if (graph.last.stream) {
    ++num_waits;
    advance(lock, *graph.last.stream, graph.last.place);
    host_waited(graph.last.clock);
  }
  for (DeviceMemory& memory : memories_) memory.dissolve(&graph);
}

}  // namespace fakedrv

using fakedrv::Driver;
using fakedrv::guarded;

extern "C" {

int fakedrv_begin_capture(fakedrv_stream* stream, fakedrv_graph** graph) {
  return guarded([&](Driver& driver, auto&) {
    auto made = std::make_unique<fakedrv_graph>();
    driver.begin_capture(*stream, *made);
    *graph = made.release();
  });
}

int fakedrv_end_capture(fakedrv_stream* stream) {
  return guarded([&](Driver& driver, auto&) { driver.end_capture(*stream); });
}

uint64_t fakedrv_capture(const fakedrv_stream* stream) {
  uint64_t id = 0;
  guarded([&](Driver&, auto&) { id = stream->capture.graph ? stream->capture.graph->id : 0; });
  return id;
}

int fakedrv_replay_at_once(fakedrv_stream* stream) {
  return guarded([&](Driver&, auto&) {
    if (!stream->capture.graph) throw std::runtime_error("the stream does not capture");
    auto& nodes = stream->capture.graph->nodes;
    if (!nodes.empty()) nodes.back().runs_at_once = true;
  });
}

int fakedrv_replay(fakedrv_graph* graph, fakedrv_stream* stream) {
  return guarded([&](Driver& driver, Driver::Lock& lock) { driver.replay(lock, *graph, *stream); });
}

int fakedrv_destroy_graph(fakedrv_graph* graph) {
  const int failed = guarded([&](Driver& driver, Driver::Lock& lock) { driver.dissolve(lock, *graph); });
  delete graph;  // without the lock: arguments that are dropped may free memory
  return failed;
}

}  // extern "C"
