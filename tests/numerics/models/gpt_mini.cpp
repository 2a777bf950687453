#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "models/model.hpp"

namespace numerics {
namespace {

constexpr int64_t kTokens = 65, kContext = 64, kWidth = 128, kHidden = 512, kHeads = 4;

torch::nn::LayerNorm layer_norm() {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}));
}

class BlockImpl final : public torch::nn::Module {
 public:
  BlockImpl()
      : ln1_(register_module("ln1", layer_norm())),
        qkv_(register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth))),
        proj_(register_module("proj", torch::nn::Linear(kWidth, kWidth))),
        ln2_(register_module("ln2", layer_norm())),
        fc1_(register_module("fc1", torch::nn::Linear(kWidth, kHidden))),
        fc2_(register_module("fc2", torch::nn::Linear(kHidden, kWidth))) {}

  at::Tensor forward(const at::Tensor& input) {
    const auto x = input + proj_(attention(ln1_(input)));
    return x + fc2_(torch::gelu(fc1_(ln2_(x))));
  }

 private:
  at::Tensor attention(const at::Tensor& x) {
    const auto batch = x.size(0), length = x.size(1);
    const auto parts = qkv_(x).split(kWidth, -1);
    const auto heads = [&](const at::Tensor& part) {
      return part.view({batch, length, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const auto mixed = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0.0,
                                                        /*is_causal=*/true);
    return mixed.transpose(1, 2).reshape({batch, length, kWidth});
  }

  torch::nn::LayerNorm ln1_;
  torch::nn::Linear qkv_, proj_;
  torch::nn::LayerNorm ln2_;
  torch::nn::Linear fc1_, fc2_;
};
TORCH_MODULE(Block);

template <int64_t kBlocks>
class Gpt final : public Model<Gpt<kBlocks>> {
 public:
  explicit Gpt(OptimizerChoice choice)
      : Model<Gpt>(std::move(choice)),
        tok_emb_(this->register_module("tok_emb", torch::nn::Embedding(kTokens, kWidth))),
        pos_emb_(this->register_module("pos_emb", torch::nn::Embedding(kContext, kWidth))),
        blocks_(this->register_module("blocks", torch::nn::ModuleList())),
        ln_f_(this->register_module("ln_f", layer_norm())),
        head_(this->register_module("head", torch::nn::Linear(torch::nn::LinearOptions(kWidth, kTokens).bias(false)))) {
    torch::nn::init::normal_(tok_emb_->weight, 0, 0.02);
    torch::nn::init::normal_(pos_emb_->weight, 0, 0.02);
    for (int64_t i = 0; i < kBlocks; ++i) blocks_->push_back(Block());
  }

  at::Tensor loss(const cohort::Batch& batch, int64_t) {
    const at::Tensor& tokens = batch[0];
    auto x = tok_emb_(tokens) + pos_emb_(torch::arange(tokens.size(1), tokens.device()));
    for (size_t i = 0; i < blocks_->size(); ++i) x = blocks_->template at<BlockImpl>(i).forward(x);
    return torch::cross_entropy_loss(head_(ln_f_(x)).flatten(0, 1), batch[1].tensor().flatten());
  }

 private:
  torch::nn::Embedding tok_emb_, pos_emb_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm ln_f_;
  torch::nn::Linear head_;
};

}  // namespace

std::shared_ptr<cohort::Module> make_gpt_mini(const OptimizerChoice& choice) {
  return std::make_shared<Gpt<4>>(choice);
}

std::shared_ptr<cohort::Module> make_gpt_8(const OptimizerChoice& choice) {
  return std::make_shared<Gpt<8>>(choice);
}

}  // namespace numerics
