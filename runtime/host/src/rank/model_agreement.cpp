// The first collective part of a training: ranks agree on the model, and rank 0's values go to all.
//
// State of the optimizers may have owners, one rank for each parameter (StateOwners). Rank 0's own state is not sent,
// and no rank keeps what another one owns; what rank 0 alone has of others, as a program may have loaded it, goes to
// them.
#include <sstream>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/sdk/dtype.hpp>

#include "communicator/op_args.hpp"
#include "rank_state.hpp"

namespace cohort::host {
namespace {

std::string describe(const cohort_tensor& tensor, const char* kind) {
  std::ostringstream text;
  text << kind << ' ' << tensor.name << ' ' << sdk::name_of(tensor.dtype) << " [";
  for (int32_t i = 0; i < tensor.ndim; ++i) text << (i ? ", " : "") << tensor.shape[i];
  text << ']' << (tensor.flags & COHORT_TENSOR_REQUIRES_GRAD ? "" : " (no gradient)") << '\n';
  return text.str();
}

std::string description_of_model(RankState& state) {
  std::string text;
  for (const cohort_tensor& parameter : state.training.model->parameters()) text += describe(parameter, "parameter");
  for (const cohort_tensor& buffer : state.training.model->buffers()) text += describe(buffer, "buffer");
  for (uint32_t phase = 0; phase < state.training.model->num_phases(); ++phase) {
    text += std::string("optimizer ") + state.training.model->optimizers().kind(phase) + '\n';
    if (state.training.owners.is_owned(phase)) text += "its state has owners\n";
  }
  return text + state.training.model->optimizers().settings();
}

// Throws UserError on all ranks if a parameter of an owned phase has no owner, or several.
void check_owners(RankState& state) {
  const auto parameters = state.training.model->parameters();
  std::vector<uint64_t> owners(parameters.size());
  for (uint32_t id = 0; id < owners.size(); ++id)
    owners[id] = state.training.owners.of(id) == StateKeeper::kThisRank ? 1 : 0;
  if (state.is_distributed()) {
    cohort_op_args args = op_args(COHORT_UINT64, owners.data(), owners.size());
    args.reduce = COHORT_REDUCE_SUM;
    state.comms.on_control("counting the owners of optimizer state",
                           [&](cohort_comm* comm) { return run_all_reduce(comm, args, nullptr); });
  }
  for (uint32_t id = 0; id < owners.size(); ++id) {
    if (!state.training.owners.is_owned(state.training.model->phase_of(id)) || owners[id] == 1) continue;
    throw UserError("strategy '" + to_string(state.setup.selection.strategy) + "' gives the optimizer state of " +
                    in_quotes(parameters[id].name) + " to " + std::to_string(owners[id]) +
                    " ranks; each parameter of the phase must be in optimizer/1.own of one rank");
  }
}

}  // namespace

void agree_on_model(RankState& state) {
  if (state.is_distributed()) {
    state.agree_on("model", description_of_model(state),
                   "ranks have different models or optimizers; build the same module and the same optimizers, with the "
                   "same options, on every rank");
  }
  if (state.training.owners.any()) check_owners(state);
}

void broadcast(RankState& state, std::span<const cohort_tensor> tensors) {
  for (const cohort_tensor& tensor : tensors) {
    if (tensor.nbytes == 0) continue;
    if (!(tensor.flags & COHORT_TENSOR_DENSE)) {
      throw UserError("'" + std::string(tensor.name) +
                      "' has gaps in memory (a strided view); make it contiguous() before training on several ranks");
    }
    const cohort_stream stream = state.devices.current({tensor.device_type, tensor.device_index});
    const cohort_op_args args = op_args(COHORT_UINT8, tensor.data, tensor.nbytes, stream);
    const auto purpose = std::make_shared<const std::string>("'" + std::string(tensor.name) + "'");
    cohort_comm* const world = state.lanes.first().comms.world;
    state.host.recorder().set_purpose(world, purpose);
    state.host.check(run_broadcast(world, args, nullptr), "broadcast of " + *purpose);
  }
}

void share_optimizer_state(RankState& state) {
  OptimizerPort& optimizers = state.training.model->optimizers();
  const auto is_own = [&](uint32_t id) { return state.training.owners.of(id) == StateKeeper::kThisRank; };
  std::vector<uint32_t> shared = optimizers.with_state();
  std::erase_if(shared, is_own);
  const std::string before = optimizers.state_shape(shared);
  std::string shape = before;
  state.comms.broadcast(shape, "state of the optimizers");
  if (shape != before) {
    optimizers.forget_state(shared);
    shared = optimizers.take_state_shape(shape);
  }
  const auto tensors = optimizers.state_tensors(shared);
  state.lanes.first().thread->run([&] { broadcast(state, tensors); });
  if (!state.training.owners.any()) return;
  std::vector<uint32_t> of_others = optimizers.with_state();
  std::erase_if(of_others, [&](uint32_t id) { return state.training.owners.of(id) != StateKeeper::kAnotherRank; });
  optimizers.forget_state(of_others);
}

}  // namespace cohort::host
