// Modules whose parts do more than compute: layers that talk to other ranks, a TorchScript model, state in members, an
// optimizer that asks for its loss again. --way chooses one; the weights of rank 0 go to --save-final.
#include <cohort/cohort.hpp>

#include <iostream>

namespace module_program {
namespace {

using torch::Tensor;

/// The batches of this rank in the file of --data-from: x.S.R and y.S.R are those of rank R at step S.
class Steps final : public cohort::StreamDataset {
 public:
  explicit Steps(const std::string& file) : file_(cohort::read_safetensors(file)) {}
  void start(const cohort::Shard& shard) override {
    rank_ = shard.rank;
    step_ = 0;
  }
  std::optional<cohort::Batch> next() override {
    const std::string name = std::to_string(step_++) + "." + std::to_string(rank_);
    const Tensor* const x = file_.find("x." + name);
    if (!x) return std::nullopt;
    return cohort::Batch::list({*x, *file_.find("y." + name)});
  }

 private:
  cohort::SafetensorsFile file_;
  int64_t rank_ = 0, step_ = 0;
};

struct Data final : cohort::DataModule {
  explicit Data(const std::string& file) : steps(std::make_shared<Steps>(file)) {}
  cohort::Loader train() override {
    cohort::Loader loader;
    loader.stream = steps;
    return loader;
  }
  std::shared_ptr<Steps> steps;
};

/// Convolution, normalization over the ranks, one output.
struct Images final : cohort::ModuleFor<Images> {
  Images()
      : conv(register_module("conv", torch::nn::Conv2d(3, 5, 3))),
        bn(register_module("bn", cohort::SyncBatchNorm(5))),
        fc(register_module("fc", torch::nn::Linear(5, 1))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    const Tensor hidden = torch::relu(bn(conv(batch[0]))).mean({2, 3});
    return torch::mse_loss(fc(hidden).squeeze(1), batch[1]);
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  torch::nn::Conv2d conv;
  cohort::SyncBatchNorm bn;
  torch::nn::Linear fc;
};

struct Scripted final : cohort::ModuleFor<Scripted> {
  explicit Scripted(const std::string& file)
      : body(register_module("body", std::make_shared<cohort::ScriptModule>(std::filesystem::path(file)))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    return torch::mse_loss(body->forward(batch[0]).squeeze(1), batch[1]);
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  std::shared_ptr<cohort::ScriptModule> body;
};

/// Uses one of its two parameters, and counts its batches in a member.
struct Half final : cohort::ModuleFor<Half> {
  explicit Half(std::string how = "")
      : used(register_parameter("used", torch::ones({1}))),
        spare(register_parameter("spare", torch::ones({1}), how != "frozen")),
        how_spare(std::move(how)) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    const Tensor loss = (used * batch[0].mean()).square().sum();
    if (how_spare == "of-rank-1" && rank() == 1 && index == 1) return loss + spare.sum();
    return how_spare == "masked" ? loss + 0 * spare.sum() : loss;
  }
  cohort::Optimizers configure_optimizers() override {
    const auto options = torch::optim::SGDOptions(0.5).weight_decay(0.5);
    return how_spare == "left-out" ? torch::optim::SGD({used}, options) : torch::optim::SGD(parameters(), options);
  }
  void on_train_batch_end(const cohort::Batch&, int64_t) override { ++batches; }
  void save_state(cohort::CallbackState& state) const override { state.set("batches", batches); }
  void load_state(const cohort::CallbackState& state) override { batches = state.number("batches"); }
  Tensor used, spare;
  std::string how_spare;
  double batches = 0;
};

void finish(cohort::App& app, cohort::Module& net) {
  if (app.runtime().is_first()) cohort::save_weights(net, app.option("save-final"));
}

void train_images(cohort::App& app) {
  Images net;
  net.to(torch::kDouble);
  cohort::load_weights(net, app.option("init-from"));
  Data data(app.option("data-from"));
  app.trainer().fit(net, data);
  finish(app, net);
}

void train_script(cohort::App& app) {
  Scripted net(app.option("script"));
  Data data(app.option("data-from"));
  app.trainer().fit(net, data);
  finish(app, net);
  if (app.runtime().is_first()) net.body->script().save(app.option("script") + ".trained");
}

void train_half(cohort::App& app) {
  Half net(app.option("spare"));
  Data data(app.option("data-from"));
  app.trainer().fit(net, data);
  if (!app.runtime().is_first()) return;
  std::cout << "spare " + std::to_string(net.spare.item<double>()) + ", batches " + std::to_string(net.batches) + "\n";
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("module")
      .option("way", "images", "images, script or half")
      .option("init-from", "", "initial weights of the images' module")
      .option("data-from", "", "batches of each step and rank")
      .option("script", "", "a TorchScript model")
      .option("spare", "", "of half: frozen, left-out of the optimizer, of-rank-1, or masked")
      .option("save-final", "final.safetensors", "where rank 0 writes the weights")
      .defaults([](cohort::Options& options) { options.max_epochs = 1; })
      .run(argc, argv, [](cohort::App& app) {
        const std::string& way = app.option("way");
        if (way == "images") return train_images(app);
        if (way == "script") return train_script(app);
        train_half(app);
      });
}

}  // namespace module_program
