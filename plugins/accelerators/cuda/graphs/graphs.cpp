// libcohort_graphs_cuda.so: LibTorch's CUDA graphs for --graph, as cohort/api/step_graph.h wants them.
//
// Only opened where libtorch_cuda is: its symbols, and those of libc10_cuda, are found in the process. Random numbers
// are new in each replay, because CUDAGraph moves the default generator on.
#include <memory>
#include <string>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/DeviceGuard.h>

#include <cohort/api/step_graph.h>

namespace {

struct Graph {
  at::cuda::CUDAGraph graph{};
  bool captures = false;
};

Graph& graph_of(void* graph) {
  return *static_cast<Graph*>(graph);
}

// Returns null, or the text of what the call throws.
template <class Call>
const char* text_of_failure(const Call& call) noexcept {
  thread_local std::string text;
  try {
    call();
    return nullptr;
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.c_str();
}

// Other threads, as those that watch NCCL, may ask for events meanwhile.
const char* begin(int32_t device_index, void** graph) noexcept {
  return text_of_failure([&] {
    const c10::DeviceGuard device({c10::kCUDA, static_cast<c10::DeviceIndex>(device_index)});
    auto made = std::make_unique<Graph>();
    made->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    made->captures = true;
    *graph = made.release();
  });
}

const char* end(void* graph) noexcept {
  return text_of_failure([&] {
    graph_of(graph).captures = false;
    graph_of(graph).graph.capture_end();
  });
}

const char* replay(void* graph) noexcept {
  return text_of_failure([&] { graph_of(graph).graph.replay(); });
}

void destroy(void* graph) noexcept {
  if (graph_of(graph).captures) end(graph);
  text_of_failure([&] { delete &graph_of(graph); });
}

}  // namespace

extern "C" {
extern COHORT_EXPORT const cohort_step_graphs cohort_step_graphs_1;
const cohort_step_graphs cohort_step_graphs_1{sizeof(cohort_step_graphs), 0, begin, end, replay, destroy};
}
