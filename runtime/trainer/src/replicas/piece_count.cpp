#include "replicas/piece_count.hpp"

#include <algorithm>
#include <string>

#include <cohort/host/error.hpp>
#include <cohort/host/selection.hpp>

namespace cohort {

// Under a strategy with parts, four for each of them unless --pieces says.
PieceCount::PieceCount(const Runtime& runtime, size_t replicas)
    : replicas_(replicas),
      is_auto_(runtime.options().pieces == 0),
      is_said_(!is_auto_ && runtime.options().origin("pieces") != Origin::kDefault) {
  const auto parts = static_cast<size_t>(runtime.selection().parts);
  count_ = is_said_ ? static_cast<size_t>(runtime.options().pieces) : parts > 0 ? 4 * parts : 1;
}

BatchPieces PieceCount::cut(const Batch& batch) {
  if (is_said_ && !has_cut_ && samples_ < static_cast<int64_t>(count_ * replicas_)) {
    throw UserError("the first batch has " + std::to_string(samples_) + " samples for --pieces=" +
                    std::to_string(count_) + (replicas_ > 1 ? " of " + std::to_string(replicas_) + " replicas" : "") +
                    "; give larger batches, or fewer pieces");
  }
  has_cut_ = true;
  return cut_into(batch, count_);
}

size_t PieceCount::next() const {
  const auto most = static_cast<size_t>(samples_) / replicas_;
  return count_ < most ? std::min(2 * count_, most) : 0;
}

void PieceCount::note_trained(const Batch& batch, const Module& module, uint64_t steps) {
  const uint64_t begun = steps_.try_emplace(module.phase(), steps).first->second;
  if (steps > begun) known_.insert(shapes_of(batch, module));
}

// The phase and the number of trained weights, then each tensor's number of dimensions before its sizes.
PieceCount::Shapes PieceCount::shapes_of(const Batch& batch, const Module& module) {
  Shapes shapes{static_cast<int64_t>(module.phase()), 0};
  for (const at::Tensor& parameter : module.parameters()) shapes[1] += parameter.requires_grad() ? 1 : 0;
  batch.map_tensors([&](const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    shapes.push_back(tensor.dim());
    shapes.insert(shapes.end(), tensor.sizes().begin(), tensor.sizes().end());
    return tensor;
  });
  return shapes;
}

}  // namespace cohort
