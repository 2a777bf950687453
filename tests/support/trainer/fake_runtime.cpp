#include "fake_runtime.hpp"

#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace cohort {
namespace testing {
namespace {

Script* current = nullptr;

}  // namespace

Script& script() {
  return *current;
}

ScriptedRun::ScriptedRun(const std::function<void(Script&)>& set) {
  set(script_);
  current = &script_;
  log_ = std::make_unique<host::Log>(host::LogSettings{host::LogLevel::kOff, host::LogFormat::kText, {}, 0, 1});
  plugins_ = std::make_unique<host::PluginHost>(host::PluginSearch{}, *log_);
  runtime_ =
      std::make_unique<Runtime>(Runtime::Setup{script_.options, *plugins_, script_.selection, script_.topology, *log_});
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
  std::vector<c10::Device> devices;  // by replica
};

Runtime::Runtime(Setup setup)
    : state_(new State{setup, std::vector(static_cast<size_t>(setup.selection.replicas), c10::Device(at::kCPU))}) {}
Runtime::~Runtime() = default;
bool Runtime::is_connected() const {
  return true;
}
void Runtime::require_use(int32_t, int64_t) const {}
const host::Topology& Runtime::topology() const {
  return state_->setup.topology;
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
std::span<const c10::Device> Runtime::devices() const {
  return state_->devices;
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
bool Runtime::is_same_on_all_ranks(std::string_view, const std::string&) {
  return true;
}
uint64_t Runtime::bytes_sent() const {
  return 100 * static_cast<uint64_t>(std::count(script().calls.begin(), script().calls.end(), "step"));
}

// Replicas share the weights and their gradients are added up, as the runtime's session does it.
struct Session::State {
  Runtime& runtime;
  std::vector<torch::nn::Module*> replicas;
  Optimizers optimizers;
  size_t phase = 0;
  uint64_t steps = 0;
  bool no_sync = false;
  Votes votes{};
};

Session::Session(Runtime& runtime, torch::nn::Module& module, Optimizers optimizers)
    : Session(runtime, std::array{&module}, std::move(optimizers)) {}
Session::Session(Runtime& runtime, std::span<torch::nn::Module* const> replicas, Optimizers optimizers)
    : state_(new State{runtime, {replicas.begin(), replicas.end()}, std::move(optimizers)}) {
  const auto weights = replicas[0]->parameters();
  for (torch::nn::Module* const replica : replicas.subspan(1)) {
    auto shared = replica->parameters();
    for (size_t i = 0; i < weights.size(); ++i) shared[i].set_data(weights[i].detach());
  }
}
Session::~Session() = default;
void Session::begin(size_t phase) {
  state_->phase = phase;
  script().calls.emplace_back("begin");
}
void Session::begin_all() {
  script().calls.emplace_back("begin all");
}
void Session::select(size_t phase) {
  state_->phase = phase;
}

void Session::backward(const at::Tensor& loss, double scale) {
  run_backward({loss}, {at::full_like(loss, scale)});
  end_backward();
}

void Session::run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                           uint32_t replica) {
  if (replica == 0) {
    std::ostringstream call;
    call << "backward " << (gradients[0].defined() ? gradients[0].mean().item<double>() : 1.0)
         << (state_->no_sync ? " no_sync" : "");
    script().calls.push_back(call.str());
  }
  torch::autograd::backward(roots, gradients);
}

void Session::run_backward_to(const std::vector<at::Tensor>&, const at::Tensor& loss, const at::Tensor& gradient) {
  torch::autograd::backward({loss}, {gradient});
}

void Session::end_backward() {
  const auto sums = state_->replicas[0]->parameters();
  for (size_t number = 1; number < state_->replicas.size(); ++number) {
    const auto parameters = state_->replicas[number]->parameters();
    for (size_t i = 0; i < sums.size(); ++i) {
      at::Tensor& own = parameters[i].mutable_grad();
      if (own.defined()) sums[i].mutable_grad() = sums[i].grad().defined() ? sums[i].grad() + own : own;
      own.reset();
    }
  }
}

Votes Session::step() {
  return step(state_->phase);
}
Votes Session::step(size_t phase) {
  script().calls.emplace_back("step");
  state_->optimizers[phase].step();
  state_->optimizers[phase].zero_grad();
  return script().agree(phase + 1 == state_->optimizers.size() ? ++state_->steps : state_->steps, state_->votes);
}
Votes Session::exchange_votes() {
  return script().agree(state_->steps, state_->votes);
}
void Session::clip_gradients(std::optional<GradientClip>) {}

void Session::vote(Votes votes) {
  state_->votes = votes;
}
void Session::vote_every(uint64_t) {}
void Session::optimizers_restored() {}
host::StateKeeper Session::state_keeper(const at::Tensor& parameter) const {
  return script().state_keeper(parameter);
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
  return *state_->replicas[0];
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
void Session::finish() {
  script().calls.emplace_back("finish");
}
void Session::check_equal_weights() {}
std::map<std::string, double> Session::strategy_metrics() const {
  return {};
}

}  // namespace cohort
