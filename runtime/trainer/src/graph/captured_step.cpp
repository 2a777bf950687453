#include "graph/captured_step.hpp"

#include <array>
#include <sstream>
#include <utility>
#include <variant>

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include <cohort/host/error.hpp>
#include <cohort/optimizer_kinds.hpp>

namespace cohort {
namespace {

std::vector<at::Tensor> tensors_in(const Batch& batch) {
  std::vector<at::Tensor> tensors;
  batch.map_tensors([&](const at::Tensor& tensor) {
    tensors.push_back(tensor);
    return tensor;
  });
  return tensors;
}

void describe(std::ostream& out, const Value& value) {
  if (value.is_list()) {
    out << '[';
    for (size_t i = 0; i < value.size(); ++i) describe(out << (i == 0 ? "" : ", "), value.items()[i]);
    out << ']';
  } else if (value.is_map()) {
    out << '{';
    for (const auto& [key, item] : value.entries()) describe(out << key << ": ", item);
    out << '}';
  } else if (value.is_tensor() && value.tensor().defined()) {
    out << value.tensor().scalar_type() << ' ' << value.tensor().sizes();
  } else {
    out << "nothing";
  }
}

/// Returns how the batch is built, with the types and sizes of its tensors.
std::string sizes_of(const Batch& batch) {
  std::ostringstream text;
  describe(text, batch);
  return text.str();
}

/// Returns a batch of the same bytes in memory of its own.
Batch fixed_copy(const Batch& there) {
  return there.map_tensors([](const at::Tensor& tensor) {
    if (tensor.is_cpu()) {
      throw UserError(
          "--graph: transfer_batch leaves a tensor of the batch on the host, where no replay looks; copy it to the "
          "device, or leave --graph out");
    }
    return tensor.detach().clone();
  });
}

std::vector<double> settings_of(torch::optim::Optimizer& optimizer) {
  std::vector<double> values;
  for (auto& group : optimizer.param_groups()) {
    optimizer_kind(optimizer)->visit_settings(group.options(), [&](const char*, SettingField field) {
      const auto* const number = std::get_if<double*>(&field);
      values.push_back(number ? **number : (*std::get<bool*>(field) ? 1.0 : 0.0));
    });
  }
  return values;
}

[[noreturn]] void refuse_change(const std::string& what) {
  throw UserError("--graph: " + what +
                  " changed after a step was captured, and a replay repeats what was; leave that as it is, or leave "
                  "--graph out");
}

}  // namespace

CapturedStep::CapturedStep(Runtime& runtime, Module& module, StepDriver& session, Profile* profile, int64_t warm_up)
    : runtime_(runtime),
      module_(module),
      session_(session),
      profile_(profile),
      steps_left_(warm_up),
      parameters_(module.parameters()),
      buffers_(module.buffers()) {}

CapturedStep::Result CapturedStep::run(const Batch& there, bool is_last, MetricBoard* board, const Loop& loop) {
  const std::string sizes = sizes_of(there);
  if (graph_) {
    if (!can_replay(sizes, is_last)) return {loop.take(there), How::kTaken};
    replay(there, board);
    return {loss_, How::kReplayed, bytes_sent_};
  }
  if (!can_capture(sizes)) {
    at::Tensor loss = loop.take(there);
    sizes_ = sizes;
    return {std::move(loss), How::kTaken};
  }
  capture(there, loop);
  replay(there, board);
  return {loss_, How::kCaptured};
}

// The rest of an epoch's data may be smaller than all other batches. Ranks capture together.
bool CapturedStep::can_capture(const std::string& sizes) {
  if (steps_left_ > 0) {
    --steps_left_;
    return false;
  }
  std::array<double, 1> ranks_without{sizes == sizes_ ? 0.0 : 1.0};
  runtime_.all_reduce_sum(ranks_without);
  return ranks_without[0] == 0.0;
}

bool CapturedStep::can_replay(const std::string& sizes, bool is_last) const {
  if (sizes == sizes_) return true;
  if (is_last || runtime_.world_size() == 1) return false;
  throw UserError(
      "--graph: a step was captured with the batch " + sizes_ + ", and this one is " + sizes +
      ", which other ranks may not have at the same step; give all batches the same sizes, or leave --graph "
      "out");
}

void CapturedStep::capture(const Batch& there, const Loop& loop) {
  graph_ = runtime_.make_graph();
  fixed_ = fixed_copy(there);
  decided_ = decided();
  MetricBoard board(MetricBoard::Pass::kCapture);
  const uint64_t bytes_before = runtime_.bytes_sent();
  loop.vote();
  is_capturing_ = true;
  session_.capture(*graph_, [&] {
    const Module::Recording recording(module_, &board);
    loss_ = loop.take(fixed_);
  });
  is_capturing_ = false;
  bytes_sent_ = runtime_.bytes_sent() - bytes_before;
  logged_ = board.captured();
  if (runtime_.is_first()) {
    runtime_.log().info("Step " + std::to_string(session_.steps()) + " was captured: it is replayed from now on");
  }
}

void CapturedStep::replay(const Batch& there, MetricBoard* board) {
  const Timed replays(profile_, Profile::kReplay);
  check_decided();
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> from = tensors_in(there), to = tensors_in(fixed_);
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  graph_->replay();
  if (!board) return;
  for (const auto& [name, value, options] : logged_) board->add(name, value, options);
}

CapturedStep::Decided CapturedStep::decided() const {
  Decided now{.places = {},
              .settings = settings_of(session_.optimizers()[0]),
              .modes = detail::training_modes(module_),
              .trained = {}};
  for (const auto* const tensors : {&parameters_, &buffers_}) {
    for (const at::Tensor& tensor : *tensors) now.places.push_back(tensor.const_data_ptr());
  }
  for (const at::Tensor& parameter : parameters_) now.trained.push_back(parameter.requires_grad());
  return now;
}

void CapturedStep::check_decided() const {
  const Decided now = decided();
  if (now.places != decided_.places) refuse_change("the memory of weights or buffers");
  if (now.settings != decided_.settings) refuse_change("settings of the optimizer, as its learning rate,");
  if (now.modes != decided_.modes) refuse_change("which parts of the module are in training mode");
  if (now.trained != decided_.trained) refuse_change("which weights require a gradient");
}

}  // namespace cohort
