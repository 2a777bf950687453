// Trains on ranks with different numbers of batches, for uneven_test.py, which computes the same data, models and
// steps.
//
// Batch b of rank r has 2 + (r + b) % 2 rows. Weights begin with numbers by a formula. What each rank does is noted in
// FOLDER/notes-RANK, and the weights at the end are in FOLDER/final.safetensors.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <cohort/cohort.hpp>

namespace uneven_program {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

constexpr int64_t kColumns = 6, kSamplesOfRank = 100, kBatch = 2;

Tensor numbers(std::vector<int64_t> shape, double shift) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return torch::sin(torch::arange(count, torch::kDouble) * 0.37 + shift).view(shape);
}

struct Settings {
  explicit Settings(cohort::App& app)
      : folder(app.option("folder")),
        source(app.option("source")),
        model(app.option("model")),
        optimizer(app.option("optimizer")),
        dtype(app.option("dtype") == "float32" ? torch::kFloat : torch::kDouble),
        step_ms(app.integer_option("step-ms")),
        width(app.integer_option("width")),
        lr(app.number_option("lr")) {
    std::istringstream counts(app.option("batches"));
    for (std::string count; std::getline(counts, count, ',');) batches.push_back(std::stoll(count));
  }
  int64_t batches_of(int rank) const { return batches.at(static_cast<size_t>(rank)); }

  fs::path folder;
  std::string source, model, optimizer;
  torch::ScalarType dtype;
  int64_t step_ms, width;
  double lr;
  std::vector<int64_t> batches;
};

struct Batches final : cohort::StreamDataset {
  explicit Batches(Settings given) : settings(std::move(given)) {}
  void start(const cohort::Shard& shard) override {
    place = 0;
    rank = shard.rank;
    epoch = shard.epoch;
  }
  std::optional<cohort::Batch> next() override {
    if (place == settings.batches_of(rank)) return std::nullopt;
    const double shift = 1.7 * rank + 0.9 * static_cast<double>(place) + 0.31 * static_cast<double>(epoch);
    const int64_t rows = 2 + (rank + place) % 2;
    ++place;
    return cohort::Batch(numbers({rows, kColumns}, shift).to(settings.dtype));
  }
  void save_state(cohort::CallbackState& state) const override {
    if (settings.source == "kept") state.set("place", static_cast<double>(place));
  }
  void load_state(const cohort::CallbackState& state) override { place = static_cast<int64_t>(state.number("place")); }

  Settings settings;
  int rank = 0;
  int64_t place = 0, epoch = 0;
};

struct Data final : cohort::DataModule {
  explicit Data(Settings given) : settings(std::move(given)) {}
  cohort::Loader train() override {
    if (settings.source != "sampler") return {.stream = std::make_shared<Batches>(settings)};
    const auto rows = numbers({kSamplesOfRank * std::ssize(settings.batches), kColumns}, 0).to(settings.dtype);
    const auto indices = [settings = settings](int64_t, const cohort::Shard& shard) {
      std::vector<int64_t> chosen;
      for (int64_t i = 0; i < kBatch * settings.batches_of(shard.rank); ++i) {
        chosen.push_back(kSamplesOfRank * shard.rank + i);
      }
      return chosen;
    };
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{rows}),
            .batch_size = kBatch,
            .workers = 1,
            .sampler = indices};
  }
  cohort::Loader validation() override {
    const auto rows = numbers({4, kColumns}, 5).to(settings.dtype);
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{rows}), .batch_size = kBatch};
  }
  Settings settings;
};

/// "plain": one optimizer; rank 1 alone uses `extra`, in every other batch. "pair": an optimizer for each layer.
/// "dropout": as plain, and draws random numbers.
struct Net final : cohort::ModuleFor<Net> {
  explicit Net(Settings given)
      : settings(std::move(given)),
        fc1(register_module("fc1", torch::nn::Linear(kColumns, settings.width))),
        fc2(register_module("fc2", torch::nn::Linear(settings.width, 1))),
        extra(register_module("extra", torch::nn::Linear(kColumns, 1))) {
    to(settings.dtype);
    const torch::NoGradGuard no_grad;
    double shift = 0;
    for (auto& item : named_parameters()) item.value().copy_(0.3 * numbers(item.value().sizes().vec(), shift++));
  }

  Tensor predict(const Tensor& x) { return fc2(torch::dropout(torch::tanh(fc1(x)), 0.2, draws() && is_training())); }
  bool draws() const { return settings.model == "dropout"; }

  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(settings.step_ms));
    const Tensor x = batch.tensor(), wanted = x.sum(1, true) + static_cast<double>(phase());
    Tensor out = predict(x);
    if (rank() == 1 && index % 2 == 1 && phase() == 0) out = out + extra(x);
    Tensor loss = (out - wanted).square().mean();
    if (phase() > 0) return loss;
    log("loss", loss);
    error.update(out.squeeze(1), wanted.squeeze(1));
    log("mse", error);
    return loss;
  }
  void validation_step(const cohort::Batch& batch, int64_t) override { log("val", predict(batch.tensor()).mean()); }
  cohort::Optimizers configure_optimizers() override {
    if (settings.optimizer == "lbfgs") return torch::optim::LBFGS(parameters());
    if (settings.optimizer == "sgd") return torch::optim::SGD(parameters(), settings.lr);
    if (settings.model != "pair") return torch::optim::Adam(parameters(), settings.lr);
    auto second = extra->parameters();
    const auto first = fc1->parameters();
    second.insert(second.begin(), first.begin(), first.end());
    return {torch::optim::SGD(second, torch::optim::SGDOptions(settings.lr).momentum(0.9)),
            torch::optim::Adam(fc2->parameters(), settings.lr)};
  }

  void note(const std::string& line) {
    std::ofstream(settings.folder / ("notes-" + std::to_string(rank())), std::ios::app) << line + "\n";
  }
  void on_train_batch_start(const cohort::Batch&, int64_t index) override { note("batch " + std::to_string(index)); }
  void on_validation_start() override { note("validation after " + std::to_string(global_step())); }
  void on_before_optimizer_step(size_t) override {
    note("gradient of extra: " + std::string(extra->weight.grad().defined() ? "yes" : "no"));
  }

  Settings settings;
  torch::nn::Linear fc1, fc2, extra;
  cohort::metric::MeanSquaredError error;
};

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("uneven_program")
      .option("folder", ".", "of what is written")
      .option("batches", "", "of each rank: 5,3")
      .option("source", "stream", "stream, kept (a stream that saves where it is) or sampler")
      .option("model", "plain", "plain, pair or dropout")
      .option("optimizer", "adam", "adam, sgd or lbfgs")
      .option("dtype", "float64", "float64 or float32")
      .option("lr", "0.05", "learning rate")
      .option("step-ms", "0", "how long a step takes")
      .option("width", "5", "of the layer between")
      .defaults([](cohort::Options& options) {
        options.max_epochs = 2;
        options.log_every_n_steps = 1;
      })
      .run(argc, argv, [](cohort::App& app) {
        const Settings settings(app);
        torch::manual_seed(3);
        Net net(settings);
        Data data(settings);
        app.trainer().fit(net, data);
        if (!app.runtime().is_first()) return;
        std::vector<std::pair<std::string, Tensor>> weights;
        for (const auto& item : net.named_parameters()) weights.emplace_back(item.key(), item.value().detach());
        cohort::write_safetensors(settings.folder / "final.safetensors", weights);
      });
}

}  // namespace uneven_program
