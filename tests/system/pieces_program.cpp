// Trains a model with dropout, batch norm and metric objects. A step on more than --room samples finds no memory, as on
// a device without free memory: after the forward pass, or within backward (--where), from batch --from on (of the
// process), on all ranks or on --rank alone. Rank 0 prints running statistics, and how often training_step ran.
#include <cstdio>

#include <cohort/cohort.hpp>

namespace pieces_program {
namespace {

using torch::Tensor;

struct Fault {
  int64_t room, from;
  bool is_in_backward, is_here;
};

struct Net final : cohort::ModuleFor<Net> {
  Net(Fault its_fault, bool has_noise, bool has_oddities)
      : fault(its_fault), is_noisy(has_noise), is_odd(has_oddities) {
    if (is_odd) register_buffer("wide", torch::ones({1}).expand({8}));
    if (is_noisy) norm = register_module("norm", torch::nn::BatchNorm1d(16));
  }
  std::shared_ptr<Net> make() const override { return std::make_shared<Net>(fault, is_noisy, is_odd); }

  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    ++calls;
    const bool fails = fault.is_here && index >= fault.from && batch.batch_size() > fault.room;
    const Tensor x = batch[0];
    if (is_odd) x.mul_(0.5);
    if (writes_weights) last->bias.detach().add_(0.1);
    Tensor hidden = torch::relu(first(x));
    if (is_noisy) hidden = torch::dropout(norm(hidden), 0.3, is_training());
    const Tensor logits = last(hidden);
    if (is_odd) do_odd_things(logits);
    accuracy.update(logits, batch[1]);
    area.update(logits, batch[1]);
    if (fails && is_odd) refuse();
    if (is_odd) norm->train();
    log("accuracy", accuracy);
    log("area", area);
    log("plain", cohort::accuracy(logits, batch[1]), cohort::LogWhere::kEpoch);
    if (fails && !fault.is_in_backward) refuse();
    const Tensor loss = torch::cross_entropy_loss(logits, batch[1]);
    log("loss", loss);
    // The last layer has its gradient by then.
    if (fails) hidden.register_hook([](const Tensor&) { refuse(); });
    return loss;
  }
  cohort::Optimizers configure_optimizers() override {
    if (has_closures) return torch::optim::LBFGS(parameters(), torch::optim::LBFGSOptions(0.1).max_iter(3));
    return torch::optim::SGD(parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  }
  /// Changes modes, the memory of a buffer and a metric that is not logged, and logs a name twice.
  void do_odd_things(const Tensor& logits) {
    norm->eval();
    seen.set_data(torch::cat({seen, logits.detach().sum().reshape({1})}));
    own.update(logits, logits.argmax(1));
    log("twice", logits.mean());
    log("twice", logits.std());
  }
  void on_train_epoch_end(int64_t) override {
    if (is_odd) log("own", own.compute());
  }
  [[noreturn]] static void refuse() { C10_THROW_ERROR(OutOfMemoryError, "the test has no memory"); }

  const Fault fault;
  const bool is_noisy, is_odd;
  bool writes_weights = false, has_closures = false;
  int64_t calls = 0;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 16));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(16, 3));
  torch::nn::BatchNorm1d norm{nullptr};
  Tensor seen = register_buffer("seen", torch::zeros({1}));
  cohort::metric::Accuracy own{cohort::metric::Multiclass{.num_classes = 3}};  // which is never logged
  cohort::metric::Accuracy accuracy{cohort::metric::Multiclass{.num_classes = 3}};
  cohort::metric::AUROC area{cohort::metric::Multiclass{.num_classes = 3}};
};

struct Rows final : cohort::DataModule {
  explicit Rows(int64_t batch_size) : batch_size_(batch_size) {}
  cohort::Loader train() override {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
    const Tensor x = torch::randn({96, 8}, generator), y = torch::randint(3, {96}, generator);
    return {.dataset = cohort::TensorDataset(x, y), .batch_size = batch_size_};
  }

 private:
  const int64_t batch_size_;
};

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("pieces")
      .option("room", "1000", "samples that the memory has room for")
      .option("from", "0", "the first batch of the epoch with that room")
      .option("where", "forward", "forward or backward")
      .option("rank", "-1", "the rank with that room; -1: all")
      .option("noise", "true", "false: without dropout and batch norm")
      .option("batch", "8", "samples of a batch")
      .option("write-weights", "false", "true: the step writes to a weight")
      .option("lbfgs", "false", "true: an optimizer that evaluates the loss several times in a step")
      .option("odd", "false", "true: a step that writes to its batch, changes modes, and fails between update and log")
      .run(argc, argv, [](cohort::App& app) {
        const int64_t rank = app.integer_option("rank");
        const Fault fault{app.integer_option("room"), app.integer_option("from"), app.option("where") == "backward",
                          rank < 0 || rank == app.runtime().rank()};
        torch::manual_seed(4);
        Net net(fault, app.option("noise") == "true", app.option("odd") == "true");
        net.writes_weights = app.option("write-weights") == "true";
        net.has_closures = app.option("lbfgs") == "true";
        Rows data(app.integer_option("batch"));
        app.trainer({.max_epochs = 2}).fit(net, data);
        if (!app.runtime().is_first()) return;
        for (const Tensor& buffer : net.buffers()) {
          std::printf("%.17g\n", buffer.to(torch::kDouble).sum().item<double>());
        }
        std::printf("calls %lld\n", static_cast<long long>(net.calls));
      });
}

}  // namespace pieces_program
