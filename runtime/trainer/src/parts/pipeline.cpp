#include "parts/pipeline.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/variable.h>

#include <cohort/host/error.hpp>
#include <cohort/mixed.hpp>
#include <cohort/torch_error.hpp>

#include "copies/clone.hpp"
#include "module/loss.hpp"
#include "module/pass_hooks.hpp"
#include "module/step_access.hpp"
#include "parts/device_generators.hpp"
#include "parts/device_watches.hpp"
#include "parts/placement.hpp"
#include "parts/units.hpp"
#include "report/device_memory.hpp"

namespace cohort {
namespace {

using detail::StepAccess;

/// Turns off the cache of autocast, as long as it lives: a cast that operators of two parts share would be a node of
/// the graphs of both parts.
class NoCastCache {
 public:
  NoCastCache() { at::autocast::set_autocast_cache_enabled(false); }
  ~NoCastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  NoCastCache(const NoCastCache&) = delete;
  NoCastCache& operator=(const NoCastCache&) = delete;

 private:
  const bool before_ = at::autocast::is_autocast_cache_enabled();
};

/// Draws from the generator that a step without pieces would use: so it follows --seed, the rank, and a checkpoint.
uint64_t draw_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

/// Gives each tensor of the copy the memory of memory(tensor of the module), on any device.
template <class Memory>
void set_memory(const Module& module, Module& copy, const Memory& memory) {
  const auto set = [&](const std::vector<at::Tensor>& own, std::vector<at::Tensor> copied) {
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i].defined()) copied[i].set_data(memory(own[i].detach()));
    }
  };
  set(module.parameters(), copy.parameters());
  set(module.buffers(), copy.buffers());
}

std::vector<bool> trained(const Module& module) {
  std::vector<bool> trained;
  for (const at::Tensor& parameter : module.parameters()) trained.push_back(parameter.requires_grad());
  return trained;
}

}  // namespace

struct Pipeline::Work {
  StepDriver& session;
  const BatchPieces& pieces;
  std::span<MetricBoard> boards;
  int64_t index;
  double scale;
  uint64_t seed = draw_seed();
  std::vector<std::unique_ptr<Piece>> running{pieces.sizes.size()};
  std::vector<Output> outputs{pieces.sizes.size()};
  std::vector<at::Tensor> losses{pieces.sizes.size()};
};

Pipeline::ThreadsOfPart::ThreadsOfPart(int threads, int before) : before_(before) {
  at::set_num_threads(threads);
}

Pipeline::ThreadsOfPart::~ThreadsOfPart() {
  at::set_num_threads(before_);
}

Pipeline::Pipeline(Runtime& runtime, Module& module, Calls calls, StepDriver& session, const FirstBatch& first,
                   Profile* profile)
    : runtime_(runtime),
      module_(module),
      calls_(std::move(calls)),
      num_parts_(runtime.devices().size()),
      num_pieces_(first.num_pieces),
      threads_of_loop_(threads_of_part(), runtime.threads()),
      devices_(runtime.devices()) {
  const auto measured = [&] { return measure_what_fits(first, session.optimizers().size()); };
  plan_ = plan_parts(runtime, session, num_pieces_, measured);
  if (plan_.has_training_end && runtime.is_first()) {
    runtime.log().info("training_step_end of module '" + module.name() +
                       "' needs the outputs of all pieces: backward begins when all of them have ended forward");
  }
  if (devices_.are_apart()) {
    move_units(module, plan_.parts, devices_, plan_.written);
    session.follow_devices();
  }
  use_.emplace(devices_, profile);
  make_lanes();
}

int Pipeline::threads_of_part() const {
  return std::max(1, runtime_.threads() / static_cast<int>(num_parts_));
}

UnitProfile Pipeline::measure_what_fits(const FirstBatch& first, size_t num_phases) {
  while (true) {
    try {
      return measure(*first.batch, num_phases);
    } catch (const std::exception& failure) {
      const bool has_samples = first.batch->batch_size() >= static_cast<int64_t>(2 * num_pieces_);
      if (!first.grows || !has_samples || !is_out_of_memory(failure)) throw;
    }
    for (size_t part = 0; part < num_parts_; ++part) release_kept_memory(devices_[part]);
    num_pieces_ *= 2;
    runtime_.log().info("no memory to measure a piece of " + std::to_string(num_pieces_ / 2) + ": batches have " +
                        std::to_string(num_pieces_) +
                        " pieces from now on, as with --pieces=" + std::to_string(num_pieces_));
  }
}

// The training goes as if nothing had been measured.
UnitProfile Pipeline::measure(const Batch& batch, size_t num_phases) {
  const detail::GeneratorKeeper keeper;
  const KeptGenerators kept(runtime_.devices());
  const std::shared_ptr<Module> copy = clone(runtime_, module_, c10::kCPU);
  set_memory(module_, *copy, [](const at::Tensor& own) { return own.clone(); });  // a step may write
  const BatchPieces pieces = cut_into(batch, num_pieces_);
  detail::set_training_modes(*copy, detail::training_modes(module_));
  StepAccess::follow(*copy, module_);
  const Module::Recording recording(*copy, nullptr);
  const NoCastCache no_cache;
  const auto training_step = [&](size_t phase, size_t piece) {
    StepAccess::set_phase(*copy, phase);
    const auto cloned = [](const at::Tensor& tensor) { return tensor.clone(); };  // a step may write to its batch
    return calls_.training_step(*copy, pieces.batches[piece].map_tensors(cloned).with_samples_of(pieces.batches[piece]),
                                0);
  };
  const auto training_step_end = [&](const Output& outputs, Output& whole) {
    const NearWeights watch(*copy, devices_);
    return calls_.training_step_end(*copy, outputs, 0, whole);
  };
  return profile_units({*copy, num_phases, pieces.sizes.size(), training_step, training_step_end, runtime_.devices()});
}

void Pipeline::make_lanes() {
  size_t count = num_parts_;
  if (plan_.runs_forward_first) {
    plan_.in_flight.assign(num_parts_, 0);
  } else if (num_parts_ > 1) {
    count = plan_.in_flight[0] == 0 ? num_pieces_ : plan_.in_flight[0];
  }
  lanes_.push_back(&module_);
  while (lanes_.size() < std::min(count, num_pieces_)) {
    copies_.push_back(clone(runtime_, module_, c10::kCPU));
    set_memory(module_, *copies_.back(), [](const at::Tensor& own) { return own; });
    lanes_.push_back(copies_.back().get());
  }
  for (const Module* const lane : lanes_) add_to(table_, *lane, module_, plan_.parts, plan_.written);
  auto in_flight = plan_.in_flight;
  in_flight.push_back(0);
  gates_.emplace(std::move(in_flight));
  if (lanes_.size() > 1) threads_ = std::make_unique<ReplicaThreads>(lanes_.size(), threads_of_part());
}

// Hooks may have changed modes, or frozen parameters.
void Pipeline::follow_module() {
  const auto modes = detail::training_modes(module_);
  for (const auto& copy : copies_) {
    if (detail::training_modes(*copy) != modes) detail::set_training_modes(*copy, modes);
  }
  if (trained_ == trained(module_)) return;
  trained_ = trained(module_);
  parameters_.assign(num_parts_, {});
  const std::vector<Unit> units = units_of(module_);
  for (auto number = plan_.order.rbegin(); number != plan_.order.rend(); ++number) {
    for (const at::Tensor& tensor : units[*number].tensors) {
      if (tensor.requires_grad()) parameters_[plan_.parts[*number]].push_back(tensor);
    }
  }
  accumulators_.clear();
  for (const at::Tensor& parameter : module_.parameters()) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameter));
  }
  for (const auto& copy : copies_) lead_gradients_of(*copy);
}

// Also if no operator shows a parameter first, as when a torch::autograd::Function is given it.
void Pipeline::lead_gradients_of(const Module& copy) const {
  const auto parameters = copy.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].set_requires_grad(trained_[i]);
    if (trained_[i]) torch::autograd::impl::set_grad_accumulator(parameters[i], weak_pointer(accumulators_[i]));
  }
}

// The first failure is the true one: others have lost their turn by it.
void Pipeline::run(size_t pieces, const std::function<void(size_t lane, size_t piece)>& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  const size_t lanes = std::min(lanes_.size(), pieces);
  const auto run_lane = [&](size_t lane) {
    try {
      for (size_t piece = lane; piece < pieces; piece += lanes) work(lane, piece);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      gates_->close();
    }
  };
  lanes > 1 ? threads_->run(lanes, run_lane) : run_lane(0);
  if (failure) std::rethrow_exception(failure);
}

Piece::Listener Pipeline::listener(size_t piece) {
  const auto enter = [this, piece](void (Gates::*pass)(size_t, size_t)) {
    return [this, piece, pass](size_t part) {
      ((*gates_).*pass)(part, piece);
      use_->enter(part);
    };
  };
  const auto leave = [this, piece](const char* what, void (Gates::*pass)(size_t)) {
    return [this, piece, what, pass](size_t part) {
      use_->leave(part, what, piece);
      ((*gates_).*pass)(part);
    };
  };
  return {.enter_forward = enter(&Gates::enter_forward),
          .leave_forward = leave("forward", &Gates::leave_forward),
          .enter_backward = enter(&Gates::enter_backward),
          .leave_backward = leave("backward", &Gates::leave_backward),
          .cross = [](size_t from, size_t to, const std::string& why) {
            throw UserError(why + ", between parts " + std::to_string(from) + " and " + std::to_string(to) +
                            ", which no piece of the first batch has done; name a cut that keeps them in one "
                            "part, or choose fewer --devices");
          }};
}

void Pipeline::run_forward(Work& work, size_t lane, size_t piece) {
  const c10::DeviceGuard device(runtime_.device());
  Module& copy = *lanes_[lane];
  if (lane > 0) StepAccess::follow(copy, module_);
  const Module::Recording recording(copy, &work.boards[piece]);
  const NoCastCache no_cache;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(mixed(work.seed + piece));
  work.running[piece] = std::make_unique<Piece>(table_, devices_, generator, listener(piece));
  work.outputs[piece] =
      work.running[piece]->forward([&] { return calls_.training_step(copy, work.pieces.batches[piece], work.index); });
}

// One after another, so that losses are added up in the order of pieces.
std::pair<at::Tensor, at::Tensor> Pipeline::root_of(Work& work, size_t piece) {
  const at::Tensor loss = loss_of(std::exchange(work.outputs[piece], {}));
  const double share = work.pieces.share(piece);
  gates_->enter_forward(num_parts_, piece);
  calls_.note_loss(work.session, loss);
  const at::Tensor gradient = work.session.root_gradient(loss, work.scale * share);
  gates_->leave_forward(num_parts_);
  work.losses[piece] = loss.detach() * share;
  return {loss, gradient};
}

void Pipeline::run_backward(Work& work, size_t piece, std::vector<std::pair<at::Tensor, at::Tensor>> roots) {
  work.running[piece]->backward(std::move(roots), [&](const auto& leaves, const auto& here, const auto& gradients) {
    calls_.run_backward(work.session, leaves, here, gradients, work.index);
  });
  work.running[piece].reset();
}

// Returns the loss of the whole batch; the leaves of the outputs have gradients then.
at::Tensor Pipeline::end_step(Work& work, const Gathered& gathered) {
  Output whole;
  {
    const NearWeights watch(module_, devices_);
    calls_.training_step_end(module_, gathered.list, work.index, whole);
  }
  const at::Tensor& loss = loss_of(whole);
  std::vector<at::Tensor> all_leaves;
  for (const auto& leaves : gathered.leaves) all_leaves.insert(all_leaves.end(), leaves.begin(), leaves.end());
  calls_.note_loss(work.session, loss);
  calls_.run_backward(work.session, all_leaves, {loss}, {work.session.root_gradient(loss, work.scale)}, work.index);
  return loss.detach();
}

at::Tensor Pipeline::train(StepDriver& session, const BatchPieces& pieces, std::span<MetricBoard> boards, int64_t index,
                           double scale) {
  const size_t count = pieces.sizes.size();
  Work work{session, pieces, boards, index, scale};
  follow_module();
  const KeptGenerators kept(runtime_.devices());
  at::Tensor whole;
  gates_->begin(count, [&](size_t part) { session.complete(parameters_[part]); });
  session.set_partial(true);
  use_->begin_batch();
  if (!plan_.runs_forward_first) {
    run(count, [&](size_t lane, size_t piece) {
      run_forward(work, lane, piece);
      run_backward(work, piece, {root_of(work, piece)});
    });
  } else {
    run(count, [&](size_t lane, size_t piece) { run_forward(work, lane, piece); });
    std::optional<Gathered> gathered;
    const auto there = [&](const at::Tensor& tensor) { return devices_.moved(tensor, devices_[num_parts_ - 1]); };
    if (plan_.has_training_end) whole = end_step(work, gathered.emplace(gather(work.outputs, there)));
    run(count, [&](size_t, size_t piece) {
      if (gathered) return run_backward(work, piece, take_gradients(*gathered, piece));
      run_backward(work, piece, {root_of(work, piece)});
    });
  }
  use_->end_batch();
  session.set_partial(false);
  return whole.defined() ? whole : sum_of(work.losses);
}

}  // namespace cohort
