#include <ATen/ops/arange.h>
#include <torch/nn/modules/embedding.h>

#include "models/model.hpp"

namespace numerics {
namespace {

constexpr int64_t kElements = 1024;
constexpr int64_t kFirstValues = 4093;  // float32 has room for hundredths behind them

/// Rows that are summed: every element of row r begins as r % 4093, and each use of a row takes lr / batch from its
/// elements. So the result is known without another implementation, whatever the size of the tensor.
template <int64_t kRows>
class Table final : public Model<Table<kRows>> {
 public:
  explicit Table(OptimizerChoice choice)
      : Model<Table>(std::move(choice)),
        rows_(this->register_module(
            "rows", torch::nn::Embedding::from_pretrained(
                        at::arange(kRows, at::kFloat).remainder(kFirstValues).unsqueeze(1).repeat({1, kElements}),
                        torch::nn::EmbeddingFromPretrainedOptions().freeze(false)))) {}

  at::Tensor loss(const cohort::Batch& batch, int64_t) { return rows_(batch[0].tensor()).sum(-1).mean(); }

 private:
  torch::nn::Embedding rows_;
};

}  // namespace

std::shared_ptr<cohort::Module> make_table_4mib(const OptimizerChoice& choice) {
  return std::make_shared<Table<(4 << 20) / kElements / 4 + 1>>(choice);
}
std::shared_ptr<cohort::Module> make_table_4gib(const OptimizerChoice& choice) {
  return std::make_shared<Table<(int64_t{4} << 30) / kElements / 4 + 1>>(choice);
}

}  // namespace numerics
