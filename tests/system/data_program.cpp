// Trains on data with a life of its own, for data_test.py: it is prepared in files, set up on ranks, read by workers or
// from a stream that keeps its place, with random numbers in both.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <cohort/cohort.hpp>
#include <cohort/host/error.hpp>

namespace data_program {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

constexpr int64_t kSamples = 96, kBatch = 4;

/// Writes a line into a file of the folder; several processes may do so at once.
void note(const fs::path& file, const std::string& line) {
  std::ofstream(file, std::ios::app) << line + "\n" << std::flush;
}

Tensor noisy(const Tensor& clean) {
  return clean + 0.1 * torch::randn(clean.sizes(), cohort::data_generator());
}

/// Row i of a file of numbers, with noise.
struct Rows final : cohort::SampleDataset {
  Rows(const fs::path& file, fs::path seen)
      : rows_(*cohort::read_safetensors(file).find("rows")), seen_(std::move(seen)) {}
  int64_t size() const override { return rows_.size(0); }
  cohort::Value sample(int64_t index) override {
    if (!seen_.empty()) note(seen_, std::to_string(index));
    return noisy(rows_[index]);
  }
  Tensor rows_;
  fs::path seen_;
};

/// Batches that each follow from the one before.
struct Walk final : cohort::StreamDataset {
  explicit Walk(fs::path reads) : reads_(std::move(reads)) {}
  void start(const cohort::Shard& shard) override {
    place_ = 0;
    at_ = torch::full({kBatch, 8}, 0.1 * static_cast<double>(1 + shard.rank + shard.epoch));
    rank_ = shard.rank;
  }
  std::optional<cohort::Batch> next() override {
    if (place_ == 12) return std::nullopt;
    note(reads_, std::to_string(rank_) + " " + std::to_string(++place_));
    at_ = noisy(at_);
    return cohort::Batch(at_);
  }
  void save_state(cohort::CallbackState& state) const override {
    state.set("place", static_cast<double>(place_));
    state.set("at", at_);
  }
  void load_state(const cohort::CallbackState& state) override {
    place_ = static_cast<int64_t>(state.number("place"));
    at_ = state.tensor("at");
  }
  fs::path reads_;
  int64_t place_ = 0;
  int rank_ = 0;
  Tensor at_;
};

struct Data final : cohort::DataModule {
  explicit Data(cohort::App& app)
      : app_(app),
        folder_(app.option("folder")),
        node_(folder_ / ("node-" + std::to_string(app.runtime().node_rank()) + ".safetensors")) {}

  void prepare() override {
    note(folder_ / "calls", "prepare by " + std::to_string(app_.runtime().rank()));
    note(folder_ / "preparing", std::to_string(::getpid()));
    if (app_.option("fail") == "throw") throw cohort::UserError("the server says no");
    std::this_thread::sleep_for(std::chrono::milliseconds(app_.integer_option("prepare-ms")));
    cohort::write_safetensors(node_, {{"rows", torch::arange(kSamples * 8).view({kSamples, 8}) / 800.0}});
  }
  void setup(cohort::Stage stage) override {
    note(folder_ / "calls",
         "setup " + std::to_string(static_cast<int>(stage)) + " by " + std::to_string(app_.runtime().rank()));
    rows_ = std::make_shared<Rows>(node_, app_.option("seen"));
    walk_ = std::make_shared<Walk>(folder_ / "reads");
  }
  cohort::Loader train() override {
    if (app_.option("source") == "stream") return {.stream = walk_};
    cohort::Loader loader{.dataset = rows_, .batch_size = kBatch, .shuffle = true};
    loader.workers = static_cast<int>(app_.integer_option("workers"));
    return loader;
  }
  cohort::Loader test() override { return {.dataset = rows_, .batch_size = kBatch, .workers = 1}; }

  cohort::App& app_;
  fs::path folder_, node_;
  std::shared_ptr<Rows> rows_;
  std::shared_ptr<Walk> walk_;
};

struct Net final : cohort::ModuleFor<Net> {
  explicit Net(int64_t step_ms = 0) : fc(register_module("fc", torch::nn::Linear(8, 1))), pause(step_ms) {}
  Tensor loss_of(const Tensor& x) { return (torch::dropout(fc(x), 0.2, is_training()) - x.sum(1, true)).pow(2).mean(); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    std::this_thread::sleep_for(pause);
    return loss_of(batch.tensor());
  }
  void test_step(const cohort::Batch& batch, int64_t) override { log("test_loss", loss_of(batch.tensor())); }
  cohort::Optimizers configure_optimizers() override { return torch::optim::Adam(parameters(), 0.01); }
  torch::nn::Linear fc;
  std::chrono::milliseconds pause;
};

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("data_program")
      .option("folder", ".", "of files that prepare writes")
      .option("prepare-ms", "0", "how long that takes")
      .option("fail", "", "throw: prepare fails")
      .option("source", "rows", "rows or stream")
      .option("seen", "", "file for the number of each row that is read")
      .option("workers", "0", "threads that read rows")
      .option("step-ms", "0", "how long a step takes")
      .defaults([](cohort::Options& options) { options.max_epochs = 3; })
      .run(argc, argv, [](cohort::App& app) {
        Net net(app.integer_option("step-ms"));
        Data data(app);
        auto trainer = app.trainer();
        trainer.fit(net, data);
        trainer.test(net, data);
      });
}

}  // namespace data_program
