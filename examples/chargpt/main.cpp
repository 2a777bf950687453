// Writes like Shakespeare, character by character: a small GPT, trained with a schedule and clipping, continues a text.
#include <cohort/cohort.hpp>

#include <filesystem>
#include <iostream>

#include "text.hpp"

namespace {

constexpr int64_t kContext = 64, kWidth = 96, kHeads = 4, kBlocks = 3;

struct BlockImpl final : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    const auto shape = x.sizes().vec();  // batch, time, width
    const auto parts = qkv(norm1(x)).view({shape[0], shape[1], 3, kHeads, -1}).permute({2, 0, 3, 1, 4});
    const auto seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    x = x + attended(seen.transpose(1, 2).reshape(shape));
    return x + narrow(torch::gelu(widen(norm2(x))));
  }

  torch::nn::LayerNorm norm1 = register_module("norm1", torch::nn::LayerNorm(std::vector{kWidth}));
  torch::nn::LayerNorm norm2 = register_module("norm2", torch::nn::LayerNorm(std::vector{kWidth}));
  torch::nn::Linear qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
  torch::nn::Linear attended = register_module("attended", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear widen = register_module("widen", torch::nn::Linear(kWidth, 4 * kWidth));
  torch::nn::Linear narrow = register_module("narrow", torch::nn::Linear(4 * kWidth, kWidth));
};
TORCH_MODULE(Block);

struct CharGpt final : cohort::ModuleFor<CharGpt> {
  explicit CharGpt(int64_t characters) : characters_(characters) {
    for (int64_t i = 0; i < kBlocks; ++i) blocks->push_back(Block());
  }
  std::shared_ptr<CharGpt> make() const override { return std::make_shared<CharGpt>(characters_); }

  torch::Tensor forward(const torch::Tensor& tokens) {
    const auto places = torch::arange(tokens.size(1), tokens.options());
    return head(norm(blocks->forward(letters(tokens) + positions(places))));
  }
  torch::Tensor loss(const cohort::Batch& batch) {
    return torch::cross_entropy_loss(forward(batch[0]).flatten(0, 1), batch[1].tensor().flatten());
  }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    auto value = loss(batch);
    log("train_loss", value);
    return value;
  }
  void validation_step(const cohort::Batch& batch, int64_t) override { log("val_loss", loss(batch)); }
  cohort::Optimizers configure_optimizers() override {
    return {torch::optim::AdamW(parameters(), 3e-3), cohort::schedule::cosine(0.1, {.warmup_steps = 50})};
  }

  torch::Tensor continued(torch::Tensor tokens, int64_t length) {
    const torch::NoGradGuard no_grad;
    for (int64_t i = 0; i < length; ++i) {
      const auto last = forward(tokens.slice(1, std::max<int64_t>(0, tokens.size(1) - kContext))).select(1, -1);
      tokens = torch::cat({tokens, torch::multinomial(torch::softmax(last, -1), 1)}, 1);
    }
    return tokens;
  }

 private:
  int64_t characters_;
  torch::nn::Embedding letters = register_module("letters", torch::nn::Embedding(characters_, kWidth));
  torch::nn::Embedding positions = register_module("positions", torch::nn::Embedding(kContext, kWidth));
  torch::nn::Sequential blocks = register_module("blocks", torch::nn::Sequential());
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(std::vector{kWidth}));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWidth, characters_));
};

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("chargpt")
      .option("text", "", "file to learn from; without it the piece of Shakespeare beside the program")
      .option("begin", "ROMEO:", "what the text that is written begins with")
      .option("length", "200", "characters to write after training")
      .defaults([](cohort::Options& options) { options.gradient_clip_val = 1.0; })
      .run(argc, argv, [](cohort::App& app) {
        Text text(app.option("text"), kContext);
        CharGpt gpt(text.num_characters());
        const auto begin = text.tokens_of(app.option("begin")).unsqueeze(0);
        app.trainer({.max_epochs = 3}).fit(gpt, text);
        if (!app.runtime().is_first()) return;
        gpt.eval();
        std::cout << text.text_of(gpt.continued(begin.to(gpt.device()), app.integer_option("length", 0))[0])
                  << std::endl;
      });
}
