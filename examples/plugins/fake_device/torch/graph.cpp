// The table of captured steps for `--graph`, made of the driver's captures on the current stream.
#include <memory>
#include <string>

#include <cohort/api/step_graph.h>

#include "fakedrv.h"

namespace fake_torch {
namespace {

struct Graph {
  int device;
  fakedrv_graph* graph;
};

Graph& graph_of(void* graph) {
  return *static_cast<Graph*>(graph);
}

const char* begin_capture(int32_t device_index, void** graph) noexcept {
  fakedrv_graph* made = nullptr;
  if (fakedrv_begin_capture(fakedrv_current_stream(device_index), &made)) return fakedrv_error();
  *graph = new Graph{device_index, made};
  return nullptr;
}

const char* end_capture(void* graph) noexcept {
  return fakedrv_end_capture(fakedrv_current_stream(graph_of(graph).device)) ? fakedrv_error() : nullptr;
}

const char* replay(void* graph) noexcept {
  const auto& [device, captured] = graph_of(graph);
  return fakedrv_replay(captured, fakedrv_current_stream(device)) ? fakedrv_error() : nullptr;
}

void destroy(void* graph) noexcept {
  const std::unique_ptr<Graph> owned(&graph_of(graph));
  fakedrv_destroy_graph(owned->graph);
}

}  // namespace
}  // namespace fake_torch

extern "C" {
extern COHORT_EXPORT const cohort_step_graphs cohort_step_graphs_1;
const cohort_step_graphs cohort_step_graphs_1{sizeof(cohort_step_graphs), 0,
                                              fake_torch::begin_capture,  fake_torch::end_capture,
                                              fake_torch::replay,         fake_torch::destroy};
}
