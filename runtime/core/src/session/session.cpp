#include <cohort/session.hpp>

#include <array>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/optimizer_kinds.hpp>
#include <cohort/rank_noise.hpp>
#include <cohort/step_driver.hpp>

namespace cohort {
namespace {

/// Throws UserError if no loop of the program's own can train these optimizers.
void check_own_loop(const Runtime& runtime, const Optimizers& optimizers) {
  runtime.require_use(COHORT_USE_OWN_LOOP);
  for (const auto& optimizer : optimizers) {
    if (!needs_closure(*optimizer)) continue;
    throw UserError(
        "LBFGS evaluates the loss of a batch several times in a step, which a session cannot repeat; train with "
        "the Trainer's fit, or choose another optimizer");
  }
  if (!optimizers.have_schedules()) return;
  throw UserError(
      "the optimizers of a session have a learning-rate schedule, which only the Trainer's fit follows; set the rates "
      "in "
      "your loop, and give optimizers without schedules");
}

std::unique_ptr<StepDriver> begin_own_loop(Runtime& runtime, torch::nn::Module& model, Optimizers optimizers) {
  check_own_loop(runtime, optimizers);
  UnroundedWeights unrounded = convert_for_training(model, runtime.options().precision);
  return runtime.make_driver(std::array{&model}, std::move(optimizers), std::move(unrounded));
}

}  // namespace

NoSync::NoSync(StepDriver& driver) : driver_(driver) {
  driver_.set_no_sync(true);
}
NoSync::~NoSync() {
  driver_.set_no_sync(false);
}

Session::Session(Runtime& runtime, torch::nn::Module& model, Optimizers optimizers)
    : driver_(begin_own_loop(runtime, model, std::move(optimizers))) {}

Session::~Session() = default;

StepDriver& driver_of(Session& session) {
  return *session.driver_;
}

// A session that was loaded keeps the random numbers of its checkpoint.
void Session::begin(size_t phase) {
  if (!std::exchange(has_begun_, true) && driver_->steps() == 0) seed_model(driver_->runtime(), {0});
  driver_->begin(phase);
}
void Session::backward(const at::Tensor& loss, double scale) {
  driver_->backward(loss, scale);
}
Autocast Session::autocast() const {
  return driver_->runtime().autocast();
}
void Session::step(std::optional<size_t> phase) {
  driver_->step(phase);
}
NoSync Session::no_sync() {
  return NoSync(*driver_);
}
void Session::clip_gradients(std::optional<GradientClip> clip) {
  driver_->clip_gradients(clip);
}
uint64_t Session::steps() const {
  return driver_->steps();
}
at::Tensor Session::all_reduce(const at::Tensor& tensor, bool mean) {
  return driver_->all_reduce(tensor, mean);
}
at::Tensor Session::all_gather(const at::Tensor& tensor) {
  return driver_->all_gather(tensor);
}
void Session::finish() {
  driver_->finish();
}
void Session::check_equal_weights() {
  driver_->check_equal_weights();
}
const Optimizers& Session::optimizers() const {
  return driver_->optimizers();
}
torch::nn::Module& Session::module() const {
  return driver_->module();
}
Runtime& Session::runtime() const {
  return driver_->runtime();
}

}  // namespace cohort
