// Trains with all that has a state at once, for kill_resume_test.py: two optimizers with schedules, one of them by a
// metric, dropout, metric objects, and data with random numbers, which workers read or a stream hands out.
#include <cohort/cohort.hpp>

namespace resume_program {
namespace {

namespace schedule = cohort::schedule;
using torch::Tensor;

constexpr int64_t kFeatures = 6, kClasses = 3, kBatch = 8;

Tensor random(at::IntArrayRef sizes) {
  return torch::randn(sizes, cohort::data_generator());
}

/// Points in a fixed order, with noise that is drawn when they are read.
struct Points final : cohort::SampleDataset {
  explicit Points(int64_t count, uint64_t seed) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    points_ = torch::randn({count, kFeatures}, generator);
  }
  int64_t size() const override { return points_.size(0); }
  cohort::Value sample(int64_t index) override {
    const Tensor point = points_[index];
    return cohort::Value::list({point + 0.3 * random(point.sizes()), point.slice(0, 0, kClasses).argmax()});
  }

 private:
  Tensor points_;
};

/// Batches that each follow from the one before; ranks have 30 of them, and one more for each further rank.
struct Walk final : cohort::StreamDataset {
  void start(const cohort::Shard& shard) override {
    left_ = 30 + shard.rank;
    at_ = torch::full({kBatch, kFeatures}, 0.1 * static_cast<double>(1 + shard.rank + shard.epoch));
  }
  std::optional<cohort::Batch> next() override {
    if (left_-- == 0) return std::nullopt;
    at_ = 0.9 * at_ + random(at_.sizes());
    return cohort::Value::list({at_.clone(), at_.slice(1, 0, kClasses).argmax(1)});
  }
  void save_state(cohort::CallbackState& state) const override {
    state.set("left", static_cast<double>(left_));
    state.set("at", at_);
  }
  void load_state(const cohort::CallbackState& state) override {
    left_ = static_cast<int64_t>(state.number("left"));
    at_ = state.tensor("at");
  }

 private:
  int64_t left_ = 0;
  Tensor at_;
};

struct Data final : cohort::DataModule {
  explicit Data(bool streams_batches) : streams(streams_batches) {}
  cohort::Loader train() override {
    if (streams) return {.prefetch = true, .stream = std::make_shared<Walk>()};
    return {.dataset = std::make_shared<Points>(475, 1),
            .batch_size = kBatch,
            .shuffle = true,
            .drop_last = true,
            .workers = 2};
  }
  cohort::Loader validation() override { return {.dataset = std::make_shared<Points>(30, 2), .batch_size = kBatch}; }

  bool streams;
};

struct Net final : cohort::ModuleFor<Net> {
  Tensor scores(const Tensor& x) {
    return head(torch::dropout(torch::relu(norm(body(x - 0.1 * recent))), 0.2, is_training()));
  }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    auto [x, y] = batch;
    if (world_size() > 1) recent = 0.9 * recent + 0.1 * x.mean(0);  // clones in one rank would have their own
    const Tensor found = scores(x);
    const Tensor loss = torch::cross_entropy_loss(found, y);
    if (phase() == 1) return 0.5 * loss + 0.01 * head->weight.square().sum();
    log("train_loss", loss);
    accuracy.update(found, y);
    log("train_acc", accuracy);
    return loss;
  }
  void validation_step(const cohort::Batch& batch, int64_t) override {
    auto [x, y] = batch;
    const Tensor found = scores(x);
    log("val_loss", torch::cross_entropy_loss(found, y));
    val_accuracy.update(found, y);
    log("val_acc", val_accuracy);
  }
  void save_rank_state(cohort::CallbackState& state) const override { state.set_mean("recent", recent); }
  void load_rank_state(const cohort::CallbackState& state) override { recent = state.tensor("recent").clone(); }
  cohort::Optimizers configure_optimizers() override {
    std::vector<Tensor> of_body = body->parameters();
    for (const Tensor& parameter : norm->parameters()) of_body.push_back(parameter);
    cohort::Optimizers optimizers;
    optimizers.add(
        {"body", torch::optim::Adam(of_body, 0.01), schedule::cosine(0, {.warmup_steps = 20, .length = 300})});
    optimizers.add({"head", torch::optim::SGD(head->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
                    schedule::plateau({.monitor = "val_loss", .factor = 0.5, .patience = 0})});
    return optimizers;
  }

  Tensor recent = torch::zeros({kFeatures});  // mean of the rank's last batches
  torch::nn::Linear body = register_module("body", torch::nn::Linear(kFeatures, 16));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(16));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, kClasses));
  cohort::metric::Accuracy accuracy{cohort::metric::Multiclass{kClasses}},
      val_accuracy{cohort::metric::Multiclass{kClasses}};
};

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("resume_program")
      .option("source", "rows", "rows or stream")
      .option("fits", "1", "trainings of the module, one after the other")
      .defaults([](cohort::Options& options) { options.max_epochs = 5; })
      .run(argc, argv, [](cohort::App& app) {
        Net net;
        Data data(app.option("source") == "stream");
        for (int fits = std::stoi(app.option("fits")); fits > 0; --fits) app.trainer().fit(net, data);
      });
}

}  // namespace resume_program
