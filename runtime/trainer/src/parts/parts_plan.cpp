#include "parts/parts_plan.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string>

#include <cohort/host/connected_rank.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/log.hpp>
#include <cohort/host/selection.hpp>

#include <fmt/format.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "parts/units.hpp"
#include "report/device_memory.hpp"

namespace cohort {
namespace {

/// Returns how many values of a parameter's size its optimizer keeps.
uint64_t kept_values(const torch::optim::Optimizer& optimizer) {
  const torch::optim::OptimizerOptions& settings = optimizer.defaults();
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&settings)) return sgd->momentum() == 0 ? 0 : 1;
  if (dynamic_cast<const torch::optim::AdagradOptions*>(&settings)) return 1;
  if (const auto* rms = dynamic_cast<const torch::optim::RMSpropOptions*>(&settings)) {
    return 1U + (rms->momentum() == 0 ? 0U : 1U) + (rms->centered() ? 1U : 0U);
  }
  if (const auto* lbfgs = dynamic_cast<const torch::optim::LBFGSOptions*>(&settings)) {
    return 2 * static_cast<uint64_t>(lbfgs->history_size());
  }
  return 2;  // as Adam
}

/// Returns the bytes that a unit's tensors take on a device during a training, without activations.
uint64_t bytes_of(const Unit& unit, const StepDriver& session) {
  const bool has_masters = has_master_weights(session.runtime().options().precision);
  uint64_t bytes = 0;
  for (const at::Tensor& tensor : unit.tensors) {
    bytes += tensor.nbytes();
    if (!tensor.requires_grad()) continue;
    const uint64_t one = has_masters ? static_cast<uint64_t>(tensor.numel()) * sizeof(float) : tensor.nbytes();
    bytes += tensor.nbytes() + (has_masters ? one : 0);
    const at::Tensor& weights = session.weights_of(tensor);
    for (size_t phase = 0; phase < session.optimizers().size(); ++phase) {
      const torch::optim::Optimizer& optimizer = session.optimizers()[phase];
      for (const auto& group : optimizer.param_groups()) {
        const bool trains = std::ranges::any_of(group.params(), [&](const auto& own) { return own.is_same(weights); });
        if (trains) bytes += one * kept_values(optimizer);
      }
    }
  }
  return bytes;
}

/// Gives all ranks what the first one has measured, but for the figures, and its number of pieces.
void share(Runtime& runtime, UnitProfile& profile, size_t& num_pieces) {
  std::ostringstream text;
  text << num_pieces << ' ' << profile.has_training_end;
  text << ' ' << profile.written.size();
  for (const WrittenBuffer& one : profile.written) text << ' ' << one.buffer << ' ' << one.part;
  for (const size_t number : profile.order) text << ' ' << number;
  std::istringstream shared(runtime.all_gather(text.str())[0]);
  size_t num_written = 0;
  shared >> num_pieces >> profile.has_training_end >> num_written;
  profile.written.resize(num_written);
  for (WrittenBuffer& one : profile.written) shared >> one.buffer >> one.part;
  profile.order.clear();
  for (size_t number = 0; shared >> number;) profile.order.push_back(number);
}

/// Logs the table of parts. `num_pieces` is the number of pieces of a batch: a part keeps as many if the strategy sets
/// no limit.
void log_parts(const Runtime& runtime, const std::vector<Unit>& units, const UnitProfile& profile,
               const host::PartsCut& cut, size_t num_pieces) {
  struct PartRow {
    std::string name;
    int64_t parameters = 0;
    double seconds = 0;
    uint64_t weight_bytes = 0, kept_bytes = 0, transient_bytes = 0;
  };
  std::vector<PartRow> rows;
  for (size_t i = 0; i < profile.order.size(); ++i) {
    const Unit& unit = units[profile.order[i]];
    const host::ModelUnit& figures = profile.units[i];
    if (rows.size() < cut.first_units.size() && cut.first_units[rows.size()] == i) {
      if (i > 0) rows.back().weight_bytes += profile.units[i - 1].crossing_bytes;  // as the gradient that comes back
      rows.push_back({.name = unit.name, .kept_bytes = i == 0 ? 0 : profile.units[i - 1].crossing_bytes});
    }
    rows.back().seconds += figures.seconds;
    rows.back().weight_bytes += figures.weight_bytes;
    rows.back().kept_bytes += figures.kept_bytes;
    rows.back().transient_bytes = std::max(rows.back().transient_bytes, figures.transient_bytes);
    for (const at::Tensor& tensor : unit.tensors) {
      if (tensor.requires_grad()) rows.back().parameters += tensor.numel();
    }
  }
  size_t width = std::string_view("first unit").size();
  double seconds = 0, slowest = 0;
  for (const PartRow& row : rows) {
    width = std::max(width, row.name.size());
    seconds += row.seconds;
    slowest = std::max(slowest, row.seconds);
  }
  // The slowest part sets the pace of the pieces, and the first one passes all parts before it: GPipe, section 2.
  const double batch = static_cast<double>(num_pieces) * slowest + seconds - slowest;
  std::string text = fmt::format(
      "parts of the model:\npart | {:<{}} | parameters |      MiB |  seconds | share |  idle", "first unit", width);
  for (size_t part = 0; part < rows.size(); ++part) {
    const PartRow& row = rows[part];
    const size_t in_flight = cut.in_flight[part] == 0 ? num_pieces : cut.in_flight[part];
    const double mib =
        static_cast<double>(row.weight_bytes + in_flight * row.kept_bytes + row.transient_bytes) / (1 << 20);
    text += fmt::format("\n{:>4} | {:<{}} | {:>10} | {:>8.3g} | {:>8.2g} | {:>3.0f} % | {:>3.0f} %", part, row.name,
                        width, row.parameters, mib, row.seconds, seconds > 0 ? 100 * row.seconds / seconds : 0,
                        batch > 0 ? 100 * (1 - static_cast<double>(num_pieces) * row.seconds / batch) : 0);
  }
  runtime.log().info(text);
}

}  // namespace

PartsPlan plan_parts(Runtime& runtime, const StepDriver& session, size_t& num_pieces,
                     const std::function<UnitProfile()>& measure) {
  const std::vector<Unit> units = units_of(session.module());
  UnitProfile profile = runtime.is_first() ? measure() : UnitProfile{};
  for (const std::string& reason : profile.reasons) runtime.log().info(reason);
  share(runtime, profile, num_pieces);
  profile.units.resize(profile.order.size());
  for (size_t i = 0; i < profile.order.size(); ++i) {
    const Unit& unit = units.at(profile.order[i]);
    profile.units[i].name = unit.name;
    profile.units[i].weight_bytes = bytes_of(unit, session);
  }
  std::vector<uint64_t> limits;
  for (const c10::Device device : runtime.devices()) limits.push_back(usable_bytes(device));
  host::ConnectedRank& rank = runtime.connected_rank();
  const host::PartsCut cut = rank.cut_into_parts(profile.units, limits, static_cast<uint32_t>(num_pieces));
  if (runtime.is_first()) log_parts(runtime, units, profile, cut, num_pieces);
  PartsPlan plan{.parts = std::vector<size_t>(units.size()),
                 .order = profile.order,
                 .in_flight = cut.in_flight,
                 .written = profile.written,
                 .has_training_end = profile.has_training_end,
                 .runs_forward_first = profile.has_training_end || rank.runs_forward_first()};
  for (size_t i = 0, part = 0; i < units.size(); ++i) {
    if (part + 1 < cut.first_units.size() && cut.first_units[part + 1] == i) ++part;
    plan.parts[profile.order[i]] = part;
  }
  for (WrittenBuffer& one : plan.written) one.part = plan.parts[profile.order[one.part]];
  return plan;
}

}  // namespace cohort
