// Datasets of torch::data behind cohort's interface.
//
// Costs the compile time of torch/data: include it only where such a dataset is used.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/data/datasets/base.h>

#include <cohort/data.hpp>
#include <cohort/host/error.hpp>

namespace cohort {

/// A map-style torch::data dataset, its examples stacked: a batch is {data, target}, or the data alone for
/// TensorExample. Datasets that are collated already (`.map(Stack<>())`) are passed through.
template <class Source>
class TorchDataset final : public Dataset {
 public:
  explicit TorchDataset(Source source) : source_(std::move(source)) {
    if (!source_.size()) throw UserError("this torch::data dataset has no size; write a StreamDataset for it");
  }

  int64_t size() const override { return static_cast<int64_t>(*source_.size()); }

  Batch get(std::span<const int64_t> indices) override {
    const std::vector<size_t> request(indices.begin(), indices.end());
    return to_batch(source_.get_batch(request));
  }

 private:
  template <class Data, class Target>
  static Batch to_batch(torch::data::Example<Data, Target> example) {
    if constexpr (std::is_same_v<Target, torch::data::example::NoTarget>) {
      return Batch(std::move(example.data));
    } else {
      return Batch({Batch(std::move(example.data)), Batch(std::move(example.target))});
    }
  }

  template <class Data, class Target>
  static Batch to_batch(std::vector<torch::data::Example<Data, Target>> examples) {
    std::vector<at::Tensor> data, targets;
    for (auto& example : examples) {
      data.push_back(std::move(example.data));
      if constexpr (!std::is_same_v<Target, torch::data::example::NoTarget>) {
        targets.push_back(std::move(example.target));
      }
    }
    if (targets.empty()) return Batch(at::stack(data));
    return Batch({Batch(at::stack(data)), Batch(at::stack(targets))});
  }

  Source source_;
};

template <class Source>
std::shared_ptr<Dataset> from_torch(Source source) {
  return std::make_shared<TorchDataset<Source>>(std::move(source));
}

}  // namespace cohort
