#include <cohort/session.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cohort/host/error.hpp>
#include <cohort/host/rank_runtime.hpp>

#include "../gradients/tensor_model.hpp"
#include "../tensor_bridge/tensor_bridge.hpp"

namespace cohort {

struct Session::State {
  State(Runtime& runtime_, torch::nn::Module& module_, Optimizers optimizers)
      : runtime(runtime_), module(module_), rank(runtime_.rank_runtime()), model(module_, std::move(optimizers)) {}

  Runtime& runtime;
  torch::nn::Module& module;
  host::RankRuntime& rank;
  TensorModel model;
  host::StepEngine* engine = nullptr;
  bool no_sync = false;
  bool begun = false;
};

namespace {

void check_optimizers(const Optimizers& optimizers) {
  if (optimizers.size() == 1) return;
  throw UserError(
      optimizers.size() == 0
          ? "configure_optimizers returned no optimizer; return one, e.g. torch::optim::SGD(parameters(), 0.1)"
          : "configure_optimizers returned " + std::to_string(optimizers.size()) +
                " optimizers; this version trains with one: give it all parameter groups");
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
        "detached, or "
        "is every parameter frozen?");
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
  args.input = input.data_ptr();
  args.output = output.data_ptr();
  args.count = static_cast<uint64_t>(input.numel());
  args.stream.device_type = COHORT_DEVICE_CPU;
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
    const at::Tensor input = tensor.contiguous();
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

Session::Session(Runtime& runtime, torch::nn::Module& model, Optimizers optimizers) {
  check_optimizers(optimizers);
  state_ = std::make_unique<State>(runtime, model, std::move(optimizers));
  state_->model.forget_gradients();
  state_->engine = &state_->rank.configure(state_->model);
  if (state_->engine->wants_gradients()) {
    state_->model.on_gradient([engine = state_->engine](uint32_t parameter) { engine->gradient_ready(parameter); });
  }
}

Session::~Session() {
  state_->rank.release_model(state_->model);
}

void Session::begin() {
  if (state_->engine->wants_gradients()) state_->model.check_frozen();
  state_->engine->begin(!state_->no_sync);
  state_->begun = true;
}

void Session::backward(const at::Tensor& loss, double scale) {
  State& state = *state_;
  if (!state.begun)
    throw UserError("backward without begin(): call session.begin() before the forward pass of every batch");
  state.begun = false;
  try {
    check_loss(loss);
    loss.backward(scale == 1.0 ? at::Tensor() : at::full_like(loss, scale));
    state.engine->end_backward();
  } catch (...) {
    state.engine->abandon();
    throw;
  }
}

Votes Session::step() {
  State& state = *state_;
  host::StepEngine& engine = *state.engine;
  if (engine.wants_gradients()) {
    for (const cohort_tensor& parameter : state.model.parameters()) {
      if (!(parameter.flags & COHORT_TENSOR_REQUIRES_GRAD)) continue;
      // Nobody used it: no gradient, as in training on one device. Only others did: the mean is in its place.
      if (!engine.is_used(parameter.id)) {
        state.model.forget_gradient(parameter.id);
      } else if (!engine.is_used_here(parameter.id)) {
        state.model.show_gradient(parameter.id);
      }
    }
  }
  engine.optimizer_step();
  state.model.forget_gradients();
  state.rank.between_steps();
  return engine.votes();
}

void Session::vote(Votes votes) {
  state_->engine->vote(votes);
}
uint64_t Session::steps() const {
  return state_->engine->steps();
}
const Optimizers& Session::optimizers() const {
  return state_->model.optimizers();
}

Session::NoSync::NoSync(Session& session) : session_(session) {
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
void Session::resume() {
  state_->rank.resume();
}
void Session::finish() {
  state_->rank.pause(COHORT_PAUSE_END);
}

}  // namespace cohort
