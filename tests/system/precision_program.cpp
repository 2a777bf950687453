// Trains the same network on the same batches in three ways, for precision_test.py: by the Trainer's steps, by steps by
// hand, and in a loop of the program's own. At two steps the last rank's batch is too large for float16.
#include <cohort/cohort.hpp>

namespace precision_program {
namespace {

using torch::Tensor;

constexpr int64_t kSteps = 20, kFeatures = 16, kClasses = 3;

std::pair<Tensor, Tensor> batch_of(int rank, int world, int64_t step) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(step * 97 + rank));
  const Tensor x = torch::randn({8, kFeatures}, generator);
  const bool is_too_large = rank == world - 1 && (step == 2 || step == 5);
  return {is_too_large ? x * 1e30 : x, x.slice(1, 0, kClasses).argmax(1)};
}

struct Batches final : cohort::StreamDataset {
  void start(const cohort::Shard& shard) override {
    rank_ = shard.rank;
    world_ = shard.world_size;
    step_ = 0;
  }
  std::optional<cohort::Batch> next() override {
    if (step_ == kSteps) return std::nullopt;
    const auto [x, y] = batch_of(rank_, world_, step_++);
    return cohort::Value::list({x, y});
  }

 private:
  int rank_ = 0, world_ = 1;
  int64_t step_ = 0;
};

struct Data final : cohort::DataModule {
  cohort::Loader train() override { return {.stream = std::make_shared<Batches>()}; }
};

struct Net final : cohort::ModuleFor<Net> {
  explicit Net(std::string way = "", bool diverges = false) : how(std::move(way)), is_nan(diverges) {}
  std::shared_ptr<Net> make() const override { return std::make_shared<Net>(how, is_nan); }

  Tensor loss(const Tensor& x, const Tensor& y) {
    const Tensor found = torch::cross_entropy_loss(last(torch::relu(first(x))), y);
    return is_nan ? found * NAN : found;
  }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    auto [x, y] = batch;
    const Tensor found = loss(x, y);
    if (automatic_optimization()) return found;
    manual_backward(found);
    step();
    return {};
  }
  bool automatic_optimization() const override { return how != "by-hand"; }
  cohort::Optimizers configure_optimizers() override {
    if (how == "lbfgs") return torch::optim::LBFGS(parameters(), 0.1);
    return torch::optim::Adam(parameters(), 0.01);
  }

  std::string how;
  bool is_nan;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kFeatures, 32));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(32, kClasses));
};

void train_in_own_loop(cohort::App& app, Net& net) {
  auto session = app.session(net, net.configure_optimizers());
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto [x, y] = batch_of(app.runtime().rank(), app.runtime().world_size(), step);
    session.begin();
    Tensor loss;
    {
      const auto autocast = session.autocast();
      loss = net.loss(x, y);
    }
    session.backward(loss);
    session.step();
  }
  session.finish();
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("precision_program")
      .option("how", "steps", "steps, by-hand, own-loop, lbfgs or nan")
      .option("save-final", "", "safetensors file for the trained weights")
      .defaults([](cohort::Options& options) { options.max_epochs = 1; })
      .run(argc, argv, [](cohort::App& app) {
        const std::string how = app.option("how");
        Net net(how, how == "nan");
        Data data;
        if (how == "own-loop") {
          train_in_own_loop(app, net);
        } else {
          app.trainer().fit(net, data);
        }
        const auto& file = app.option("save-final");
        if (!file.empty() && app.runtime().is_first()) cohort::save_weights(net, file);
      });
}

}  // namespace precision_program
