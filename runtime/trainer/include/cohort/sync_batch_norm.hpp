// Batch normalization whose statistics may be those of all ranks together: torch.nn.SyncBatchNorm.
//
//   bn = register_module("bn", cohort::SyncBatchNorm(64));
//
// For inputs [N, C, ...] of any number of dimensions, with the options, the parameters and the buffers of BatchNorm1d,
// 2d and 3d, and equal to them unless fit runs with --sync-batchnorm on several ranks. Then each forward in training
// mode talks to the other ranks, and so does its backward: every rank has to run it equally often and in the same
// order. Batches of the ranks may differ in size.
#pragma once

#include <ostream>

#include <torch/nn/modules/batchnorm.h>

namespace cohort {

class StepDriver;

class SyncBatchNormImpl final : public torch::nn::BatchNormImplBase<2, SyncBatchNormImpl> {
 public:
  using Base = torch::nn::BatchNormImplBase<2, SyncBatchNormImpl>;
  using Base::Base;

  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  /// Takes statistics over the ranks of this training from now on; null: over the own batch.
  void synchronize(StepDriver* ranks) { ranks_ = ranks; }

 protected:
  void _check_input_dim(const at::Tensor& input) override;

 private:
  /// Counts a batch, and returns the share that its statistics have in the running ones.
  double count_batch();

  StepDriver* ranks_ = nullptr;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace cohort
