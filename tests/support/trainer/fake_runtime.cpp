#include "fake_runtime.hpp"

#include <ATen/ops/full_like.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cstddef>
#include <sstream>

namespace cohort {
namespace testing {
namespace {

Script* current = nullptr;

// The constructor of Runtime wants one, and this one never looks at it.
host::PluginHost& no_plugins() {
  alignas(host::PluginHost) static std::byte storage[sizeof(host::PluginHost)];
  return reinterpret_cast<host::PluginHost&>(storage);
}

}  // namespace

Script& script() {
  return *current;
}

ScriptedRun::ScriptedRun(const std::function<void(Script&)>& set) {
  set(script_);
  current = &script_;
  log_ = std::make_unique<host::Log>(host::LogSettings{host::LogLevel::kOff, host::LogFormat::kText, {}, 0, 1});
  runtime_ = std::make_unique<Runtime>(
      Runtime::Setup{script_.options, no_plugins(), script_.selection, script_.topology, *log_});
}

ScriptedRun::~ScriptedRun() {
  current = nullptr;
}

int ScriptedRun::count(const std::string& word) const {
  return static_cast<int>(std::count_if(script_.calls.begin(), script_.calls.end(),
                                        [&](const std::string& call) { return call.starts_with(word); }));
}

}  // namespace testing

using testing::script;

struct Runtime::State {
  Setup setup;
};

Runtime::Runtime(Setup setup) : state_(new State{setup}) {}
Runtime::~Runtime() = default;
int Runtime::rank() const {
  return state_->setup.topology.rank;
}
int Runtime::world_size() const {
  return state_->setup.topology.world_size;
}
int Runtime::num_nodes() const {
  return state_->setup.topology.num_nodes;
}
const Options& Runtime::options() const {
  return state_->setup.options;
}
const host::Selection& Runtime::selection() const {
  return state_->setup.selection;
}
host::Log& Runtime::log() const {
  return state_->setup.log;
}
c10::Device Runtime::device() const {
  return at::kCPU;
}
int Runtime::threads() const {
  return 3;
}
std::string Runtime::collective() const {
  return "wire";
}
std::vector<std::string> Runtime::layers() const {
  return {"base", "top"};
}
void Runtime::all_reduce_sum(std::span<double> values) {
  values[0] += script().votes_without_batches;
}
std::vector<std::string> Runtime::all_gather(std::string_view text) {
  return script().all_gather(std::string(text));
}
void Runtime::agree(const std::string&, std::string_view, std::string_view) {}
uint64_t Runtime::bytes_sent() const {
  return 100 * static_cast<uint64_t>(std::count(script().calls.begin(), script().calls.end(), "step"));
}

struct Session::State {
  Runtime& runtime;
  torch::nn::Module& module;
  Optimizers optimizers;
  uint64_t steps = 0;
  bool no_sync = false;
  Votes votes{};
};

Session::Session(Runtime& runtime, torch::nn::Module& module, Optimizers optimizers)
    : state_(new State{runtime, module, std::move(optimizers)}) {}
Session::~Session() = default;
void Session::begin() {
  script().calls.emplace_back("begin");
}

void Session::backward(const at::Tensor& loss, double scale) {
  std::ostringstream call;
  call << "backward " << scale << (state_->no_sync ? " no_sync" : "");
  script().calls.push_back(call.str());
  loss.backward(at::full_like(loss, scale));
}

Votes Session::step() {
  script().calls.emplace_back("step");
  state_->optimizers[0].step();
  state_->optimizers[0].zero_grad();
  return script().agree(++state_->steps, state_->votes);
}

void Session::vote(Votes votes) {
  state_->votes = votes;
}
uint64_t Session::steps() const {
  return state_->steps;
}
Session::NoSync::NoSync(Session& session) : session_(session) {
  session_.state_->no_sync = true;
}
Session::NoSync::~NoSync() {
  session_.state_->no_sync = false;
}
Runtime& Session::runtime() const {
  return state_->runtime;
}
torch::nn::Module& Session::module() const {
  return state_->module;
}
const Optimizers& Session::optimizers() const {
  return state_->optimizers;
}
at::Tensor Session::all_reduce(const at::Tensor& tensor, bool) {
  return script().all_reduce(tensor);
}
host::StrategyState Session::pause_for_checkpoint() {
  script().calls.emplace_back("checkpoint");
  return script().strategy;
}
void Session::resume_after(uint64_t steps, host::StrategyState state) {
  state_->steps = steps;
  script().strategy = std::move(state);
}
void Session::pause_for_evaluation() {
  script().calls.emplace_back("pause");
}
void Session::resume() {
  script().calls.emplace_back("resume");
}
void Session::finish() {
  script().calls.emplace_back("finish");
}

}  // namespace cohort
