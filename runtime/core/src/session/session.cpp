#include <cohort/session.hpp>

#include <array>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/optim/lbfgs.h>

#include <cohort/host/error.hpp>
#include <cohort/host/rank_runtime.hpp>

#include "../gradients/tensor_model.hpp"
#include "../tensor_bridge/tensor_bridge.hpp"
#include "weights_sample.hpp"

namespace cohort {

struct Session::State {
  State(Runtime& runtime_, std::span<torch::nn::Module* const> replicas, Optimizers optimizers)
      : runtime(runtime_),
        module(*replicas.front()),
        rank(runtime_.rank_runtime()),
        model(replicas, std::move(optimizers)) {}

  Runtime& runtime;
  torch::nn::Module& module;
  host::RankRuntime& rank;
  TensorModel model;
  host::StepEngine* engine = nullptr;
  std::optional<GradientClip> clip;
  bool no_sync = false;
  bool may_accumulate = false;
  bool begun = false;
  bool has_hooks = false;

  void follow_strategy();
  void settle_unused(uint32_t phase);
  void forget_gradients();
  void run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                    const std::vector<at::Tensor>& inputs, uint32_t replica);
  std::vector<at::Tensor> inputs_of_phase(uint32_t replica) const;
};

namespace {

void check_optimizers(const Optimizers& optimizers, const Runtime& runtime) {
  if (optimizers.size() == 0) {
    throw UserError(
        "configure_optimizers returned no optimizer; return one, e.g. torch::optim::SGD(parameters(), 0.1)");
  }
  for (const auto& optimizer : optimizers) {
    if (dynamic_cast<const torch::optim::LBFGS*>(optimizer.get())) runtime.require_use(COHORT_USE_CLOSURES);
  }
  if (optimizers.size() > 1) runtime.require_use(COHORT_USE_PHASES, static_cast<int64_t>(optimizers.size()));
}

void check_loss(const at::Tensor& loss) {
  if (!loss.defined()) throw UserError("backward was given no loss; training_step has to return the loss tensor");
  if (loss.numel() != 1) {
    throw UserError("the loss has " + std::to_string(loss.numel()) +
                    " elements and must have one; take its mean() or sum()");
  }
  if (!loss.requires_grad()) {
    throw UserError(
        "the loss does not depend on any parameter that requires a gradient; was it computed under NoGradGuard, "
        "detached, or is every parameter frozen?");
  }
}

cohort_op_args op_args(const at::Tensor& input, at::Tensor& output) {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = abi_dtype(input.scalar_type());
  if (args.dtype == 0) {
    throw UserError(std::string("a tensor of type ") + c10::toString(input.scalar_type()) +
                    " cannot be reduced or gathered over ranks; convert it to a real type, e.g. with view_as_real");
  }
  const host::Device device = abi_device(output, "a tensor of a collective");
  args.input = input.data_ptr();
  args.output = output.data_ptr();
  args.count = static_cast<uint64_t>(input.numel());
  args.stream.device_type = device.type;
  args.stream.device_index = device.index;
  return args;
}

at::Tensor reduce(host::RankRuntime& rank, const at::Tensor& tensor, int32_t operation) {
  at::Tensor result = tensor.detach().contiguous().clone();
  if (rank.topology().world_size == 1 || result.numel() == 0) return result;
  cohort_op_args args = op_args(result, result);
  args.reduce = operation;
  rank.user_all_reduce(args);
  return result;
}

// d(loss)/d(own tensor) is the sum, over the ranks, of what flows into the own slice on each of them.
struct AllGather : torch::autograd::Function<AllGather> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tensor, int64_t rank_address) {
    auto& rank = *reinterpret_cast<host::RankRuntime*>(rank_address);
    context->saved_data["rank"] = rank_address;
    const at::Tensor input = tensor.clone(at::MemoryFormat::Contiguous);
    std::vector<int64_t> shape{rank.topology().world_size};
    shape.insert(shape.end(), input.sizes().begin(), input.sizes().end());
    at::Tensor gathered = at::empty(shape, input.options());
    if (rank.topology().world_size == 1 || input.numel() == 0) {
      gathered.copy_(input.unsqueeze(0));
    } else {
      rank.user_all_gather(op_args(input, gathered));
    }
    return gathered;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    auto& rank = *reinterpret_cast<host::RankRuntime*>(context->saved_data["rank"].toInt());
    const at::Tensor sum = reduce(rank, gradients[0], COHORT_REDUCE_SUM);
    return {sum.select(0, rank.topology().rank), at::Tensor()};
  }
};

}  // namespace

// Hooks wherever the strategy wants gradients, which may change between steps.
void Session::State::follow_strategy() {
  if (engine->wants_gradients() == has_hooks) return;
  has_hooks = engine->wants_gradients();
  if (!has_hooks) return model.on_gradient({});
  model.on_gradient([this](uint32_t parameter, uint32_t replica) { engine->gradient_ready(parameter, replica); });
}

// Nobody used it: no gradient, as in training on one device. Any rank did: the mean, on all of them that have it.
void Session::State::settle_unused(uint32_t phase) {
  for (const cohort_tensor& parameter : model.parameters()) {
    if (!(parameter.flags & COHORT_TENSOR_REQUIRES_GRAD) || model.phase_of(parameter.id) != phase) continue;
    if (engine->is_used(parameter.id) && rank.has_mean_gradient(parameter.id)) {
      model.show_gradient(parameter.id);
    } else {
      model.hide_gradient(parameter.id);
    }
  }
}

void Session::State::forget_gradients() {
  for (uint32_t phase = 0; phase < model.num_phases(); ++phase) model.forget_gradients(phase);
}

namespace {

/// Returns the runtime if a loop of the program's own can train on it.
Runtime& checked_for_own_loop(Runtime& runtime) {
  runtime.rank_runtime();  // throws what says that there are no ranks yet
  runtime.require_use(COHORT_USE_OWN_LOOP);
  return runtime;
}

}  // namespace

Session::Session(Runtime& runtime, torch::nn::Module& model, Optimizers optimizers)
    : Session(checked_for_own_loop(runtime), std::array{&model}, std::move(optimizers)) {}

Session::Session(Runtime& runtime, std::span<torch::nn::Module* const> replicas, Optimizers optimizers) {
  check_optimizers(optimizers, runtime);
  state_ = std::make_unique<State>(runtime, replicas, std::move(optimizers));
  State& state = *state_;
  state.forget_gradients();
  state.engine = &state.rank.configure(state.model);
  state.follow_strategy();
}

Session::~Session() {
  state_->rank.release_model(state_->model);
}

void Session::begin(size_t phase) {
  State& state = *state_;
  if (phase >= state.model.num_phases()) {
    throw UserError("begin(" + std::to_string(phase) + "): there are " + std::to_string(state.model.num_phases()) +
                    " optimizers, numbered from 0");
  }
  if (state.rank.topology().world_size > 1 || state.engine->wants_gradients()) state.model.check_frozen();
  const auto number = static_cast<uint32_t>(phase);
  const bool is_new = !state.engine->has_begun(number);
  state.engine->begin(!state.no_sync, number);
  // Of a step that failed, or of a backward beside the steps. No lane reads them any more.
  if (is_new) state.model.forget_gradients(number);
  state.begun = true;
}

void Session::begin_all() {
  for (uint32_t phase = 0; phase < state_->model.num_phases(); ++phase) {
    if (!state_->engine->has_begun(phase)) begin(phase);
  }
}

void Session::select(size_t phase) {
  if (phase >= state_->model.num_phases() || !state_->engine->has_begun(static_cast<uint32_t>(phase))) {
    begin(phase);
  } else {
    state_->engine->select(static_cast<uint32_t>(phase));
  }
  state_->begun = true;
}

void Session::backward(const at::Tensor& loss, double scale) {
  check_loss(loss);
  run_backward({loss}, {scale == 1.0 ? at::Tensor() : at::full_like(loss, scale)});
  end_backward();
}

void Session::State::run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                                  const std::vector<at::Tensor>& inputs, uint32_t replica) {
  rank.check_process();  // gradients may lie in memory that ranks share
  if (!begun) throw UserError("backward without begin(): call session.begin() before the forward pass of every batch");
  if (inputs.empty() && model.num_phases() > 1) return;  // all frozen; to LibTorch no inputs are all leaves
  const GradientSlots::Use use(replica == 0 ? model.gradient_slots() : nullptr);
  try {
    torch::autograd::backward(roots, gradients, /*retain_graph=*/std::nullopt, /*create_graph=*/false, inputs);
  } catch (...) {
    engine->abandon();
    throw;
  }
}

// With one optimizer autograd finds what the roots depend on; with several it must not reach the others' parameters.
std::vector<at::Tensor> Session::State::inputs_of_phase(uint32_t replica) const {
  return model.given_optimizers().size() == 1 ? std::vector<at::Tensor>() : model.trained(replica, engine->phase());
}

void Session::run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                           uint32_t replica) {
  state_->run_backward(roots, gradients, state_->inputs_of_phase(replica), replica);
}

void Session::run_backward_to(const std::vector<at::Tensor>& leaves, const at::Tensor& loss,
                              const at::Tensor& gradient) {
  auto inputs = state_->inputs_of_phase(0);
  if (!inputs.empty()) inputs.insert(inputs.end(), leaves.begin(), leaves.end());
  state_->engine->set_partial(true);
  state_->run_backward({loss}, {gradient}, inputs, 0);
  state_->engine->set_partial(false);
}

void Session::end_backward() {
  State& state = *state_;
  state.begun = false;
  try {
    state.engine->end_backward();
    if (state.engine->wants_gradients() && state.engine->is_last()) state.settle_unused(state.engine->phase());
  } catch (...) {
    state.engine->abandon();
    throw;
  }
}

Votes Session::step() {
  return step(state_->engine->phase());
}

Votes Session::step(size_t number) {
  State& state = *state_;
  const auto phase = static_cast<uint32_t>(number);
  state.rank.check_process();
  state.engine->check_steppable(phase);
  if (state.clip) {
    const bool by_norm = state.clip->by == GradientClip::By::kNorm;
    state.engine->clip_gradients(phase, by_norm ? COHORT_CLIP_NORM : COHORT_CLIP_VALUE, state.clip->limit);
  }
  state.engine->optimizer_step(phase);
  state.model.forget_gradients(phase);
  state.rank.between_steps();
  state.follow_strategy();
  return state.engine->votes();
}

void Session::clip_gradients(std::optional<GradientClip> clip) {
  if (clip && !state_->clip) state_->runtime.require_use(COHORT_USE_CLIPPING);
  state_->clip = clip;
}

Votes Session::exchange_votes() {
  state_->engine->exchange_votes();
  return state_->engine->votes();
}

void Session::vote(Votes votes) {
  state_->engine->vote(votes);
}
void Session::vote_every(uint64_t steps) {
  state_->engine->vote_every(steps);
}
uint64_t Session::steps() const {
  return state_->engine->steps();
}
const Optimizers& Session::optimizers() const {
  return state_->model.given_optimizers();
}

Session::NoSync::NoSync(Session& session) : session_(session) {
  State& state = *session_.state_;
  if (!state.may_accumulate) state.runtime.require_use(COHORT_USE_ACCUMULATION);
  state.may_accumulate = true;
  session_.state_->no_sync = true;
}
Session::NoSync::~NoSync() {
  session_.state_->no_sync = false;
}

at::Tensor Session::all_reduce(const at::Tensor& tensor, bool mean) {
  return reduce(state_->rank, tensor, mean ? COHORT_REDUCE_MEAN : COHORT_REDUCE_SUM);
}

at::Tensor Session::all_gather(const at::Tensor& tensor) {
  return AllGather::apply(tensor, reinterpret_cast<int64_t>(&state_->rank));
}

host::StrategyState Session::pause_for_checkpoint() {
  state_->rank.pause(COHORT_PAUSE_CHECKPOINT);
  return state_->rank.save_state();
}
void Session::resume_after(uint64_t steps, host::StrategyState state) {
  state_->rank.load_state(std::move(state), steps);
  state_->follow_strategy();
}
host::StateKeeper Session::state_keeper(const at::Tensor& parameter) const {
  return state_->rank.state_keeper(state_->model.number_of(parameter));
}
void Session::optimizers_restored() {
  state_->model.optimizers_restored();
}
torch::nn::Module& Session::module() const {
  return state_->module;
}
Runtime& Session::runtime() const {
  return state_->runtime;
}

void Session::pause_for_evaluation() {
  state_->rank.pause(COHORT_PAUSE_EVALUATE);
}
void Session::finish() {
  state_->rank.pause(COHORT_PAUSE_END);
  check_equal_weights();
}

void Session::check_equal_weights() {
  const State& state = *state_;
  if (state.rank.topology().world_size == 1 || state.rank.ranks_may_differ()) return;
  const NamedHashes own = weights_sample(state.module, steps());
  if (state.rank.is_same_on_all_ranks(hash_of(own), "comparing the ranks' weights")) return;
  const std::string found = first_difference(own, state.rank.all_gather(to_text(own)));
  throw TrainingFailed("after step " + std::to_string(steps()) + " the ranks have different weights: " + found +
                       "; look for what a rank does alone: changes of weights or optimizer settings, a layer without "
                       "reduce_bucket or configure_model, processors that round differently");
}
std::map<std::string, double> Session::strategy_metrics() const {
  return state_->rank.strategy_metrics();
}

}  // namespace cohort
