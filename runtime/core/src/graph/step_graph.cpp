#include <cohort/step_graph.hpp>

#include <dlfcn.h>

#include <string>

#include <cohort/api/step_graph.h>
#include <cohort/host/error.hpp>

#include "../device/torch_devices.hpp"

namespace cohort {
namespace {

constexpr const char* kWayOut = "; leave --graph out";
constexpr const char* kNoCapture = "--graph cannot capture this step, so change it or leave the flag out: ";

const cohort_step_graphs& table_of(const host::TorchDeviceType& type) {
  if (type.device_type == COHORT_DEVICE_CPU) {
    throw UserError(
        "--graph replays work of a device, and the CPU runs its work at once; leave it out, or choose another "
        "--accelerator");
  }
  const std::string file = beside_libtorch(type.graphs);
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string problem = library ? "" : ::dlerror();
  const void* const found = library ? ::dlsym(library, COHORT_STEP_GRAPHS_SYMBOL) : nullptr;
  const auto* const table = static_cast<const cohort_step_graphs*>(found);
  if (table && COHORT_COVERS(table, cohort_step_graphs, destroy)) return *table;
  throw UserError("--graph: nothing here captures work of '" + type.name + "' devices (" +
                  (library ? file + " has no " COHORT_STEP_GRAPHS_SYMBOL : problem) +
                  ", and the accelerator brings no libcohort_graphs_" + type.name + ".so)" + kWayOut);
}

void check(const char* failure) {
  if (failure) throw UserError(std::string("a step cannot be captured: ") + failure + kWayOut);
}

}  // namespace

StepGraph::StepGraph(const host::TorchDeviceType& type, c10::Device device)
    : table_(&table_of(type)), device_(device) {}

StepGraph::~StepGraph() {
  if (graph_) table_->destroy(graph_);
}

void StepGraph::capture(const std::function<void()>& work) {
  check(table_->begin(device_.index(), &graph_));
  try {
    work();
  } catch (const PeerFailed&) {
    throw;
  } catch (const c10::Error& error) {
    throw UserError(std::string(kNoCapture) + error.what_without_backtrace());
  } catch (const Error& error) {
    throw UserError(std::string(kNoCapture) + error.what());
  }
  check(table_->end(graph_));
}

void StepGraph::replay() {
  const char* const failure = table_->replay(graph_);
  if (failure) throw TrainingFailed(std::string("a captured step cannot be replayed: ") + failure);
}

}  // namespace cohort
