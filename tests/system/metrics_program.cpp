// Measures what metrics_test.py has written into a file, and prints "CALL NAME VALUE" for each value of fit and
// validate.
//
//   metrics_program --data=FILE                 a model whose predictions are in the data trains on all rows of it, and
//                                               validates on the first --validated=77
//   metrics_program --data=FILE --how=session   a loop of its own, in which each rank has every n-th row of the latter
#include <cstdio>

#include <cohort/cohort.hpp>

namespace metrics_program {
namespace {

using torch::Tensor;
namespace metric = cohort::metric;
using metric::Average;

constexpr int64_t kClasses = 5, kBatch = 8;
constexpr int64_t kIgnored = -1;
const std::vector<std::string> kTensors{"logits",      "labels",  "probabilities", "binary_logits", "binary_labels",
                                        "predictions", "targets", "token_logits",  "tokens"};

metric::Multiclass by(Average average) {
  return {.num_classes = kClasses, .average = average};
}

struct Scores {
  cohort::MetricCollection classes{{"accuracy", metric::Accuracy(metric::Multiclass{.num_classes = kClasses})},
                                   {"accuracy_macro", metric::Accuracy(by(Average::kMacro))},
                                   {"accuracy_weighted", metric::Accuracy(by(Average::kWeighted))},
                                   {"accuracy_none", metric::Accuracy(by(Average::kNone))},
                                   {"top_2", metric::Accuracy(by(Average::kMicro), 2)},
                                   {"top_2_macro", metric::Accuracy(by(Average::kMacro), 2)},
                                   {"precision", metric::Precision(by(Average::kMicro))},
                                   {"precision_macro", metric::Precision(by(Average::kMacro))},
                                   {"precision_weighted", metric::Precision(by(Average::kWeighted))},
                                   {"recall", metric::Recall(by(Average::kMicro))},
                                   {"recall_macro", metric::Recall(by(Average::kMacro))},
                                   {"recall_weighted", metric::Recall(by(Average::kWeighted))},
                                   {"f1", metric::F1Score(by(Average::kMicro))},
                                   {"f1_macro", metric::F1Score(by(Average::kMacro))},
                                   {"f1_weighted", metric::F1Score(by(Average::kWeighted))},
                                   {"f1_none", metric::F1Score(by(Average::kNone))},
                                   {"confusion", metric::ConfusionMatrix(metric::Multiclass{.num_classes = kClasses})},
                                   {"auroc", metric::AUROC(metric::Multiclass{.num_classes = kClasses})},
                                   {"auroc_weighted", metric::AUROC(by(Average::kWeighted))},
                                   {"auroc_none", metric::AUROC(by(Average::kNone))}};
  cohort::MetricCollection probabilities = binary("probabilities_");
  cohort::MetricCollection binary_logits = binary("binary_logits_");
  cohort::MetricCollection numbers{
      {"mse", metric::MeanSquaredError()}, {"mae", metric::MeanAbsoluteError()}, {"r2", metric::R2Score()}};
  metric::Perplexity perplexity{kIgnored};

  static cohort::MetricCollection binary(const std::string& prefix) {
    const metric::Binary low{.threshold = 0.3};
    return {{prefix + "accuracy", metric::Accuracy(low)},
            {prefix + "precision", metric::Precision(low)},
            {prefix + "recall", metric::Recall(low)},
            {prefix + "f1", metric::F1Score(low)},
            {prefix + "confusion", metric::ConfusionMatrix(low)},
            {prefix + "auroc", metric::AUROC(low)}};
  }
  void update(const cohort::Batch& batch) {
    classes.update(batch[0], batch[1]);
    probabilities.update(batch[2], batch[4]);
    binary_logits.update(batch[3], batch[4]);
    numbers.update(batch[5], batch[6]);
    perplexity.update(batch[7], batch[8]);
  }
  std::vector<cohort::MetricCollection*> collections() { return {&classes, &probabilities, &binary_logits, &numbers}; }
};

struct Measured : cohort::ModuleFor<Measured> {
  Measured() : w(register_parameter("w", torch::zeros({}))) {}

  void measure(Scores& scores, const std::string& prefix, const cohort::Batch& batch) {
    scores.update(batch);
    for (cohort::MetricCollection* const metrics : scores.collections()) log(prefix, *metrics);
    log(prefix + "perplexity", scores.perplexity);
  }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    measure(training, "train_", batch);
    return w * batch[5].mean();
  }
  void validation_step(const cohort::Batch& batch, int64_t) override { measure(validation, "val_", batch); }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }

  Tensor w;
  Scores training, validation;
};

struct Rows final : cohort::DataModule {
  Rows(const std::string& file, int64_t validated) : validated_(validated) {
    const cohort::SafetensorsFile read = cohort::read_safetensors(file);
    for (const auto& name : kTensors) tensors.push_back(*read.find(name));
  }
  std::vector<Tensor> validated() const {
    std::vector<Tensor> first;
    for (const auto& tensor : tensors) first.push_back(tensor.narrow(0, 0, validated_));
    return first;
  }
  cohort::Loader train() override {
    return {.dataset = std::make_shared<cohort::TensorDataset>(tensors), .batch_size = kBatch};
  }
  cohort::Loader validation() override {
    return {.dataset = std::make_shared<cohort::TensorDataset>(validated()), .batch_size = kBatch};
  }
  std::vector<Tensor> tensors;
  int64_t validated_;
};

void print(cohort::App& app, const char* call, const std::string& name, double value) {
  if (app.runtime().is_first()) std::printf("%s %s %.17g\n", call, name.c_str(), value);
}

void print(cohort::App& app, const char* call, const cohort::Metrics& metrics) {
  for (const auto& [name, value] : metrics) print(app, call, name, value);
}

void measure_in_own_loop(cohort::App& app, const Rows& data) {
  torch::nn::Linear linear(1, 1);
  auto session = app.session(*linear, torch::optim::SGD(linear->parameters(), 0.1));
  cohort::Runtime& runtime = session.runtime();
  Scores scores;
  for (int64_t row = runtime.rank(); row < data.validated_; row += runtime.world_size()) {
    cohort::Value::List batch;
    for (const auto& tensor : data.tensors) batch.push_back(tensor.narrow(0, row, 1));
    scores.update(cohort::Value::list(std::move(batch)));
  }
  for (cohort::MetricCollection* const metrics : scores.collections()) {
    for (const auto& [name, value] : metrics->compute_over_ranks(runtime)) {
      if (value.dim() == 0) print(app, "session", "val_" + name, value.to(torch::kDouble).item<double>());
    }
  }
  session.finish();
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("metrics")
      .option("data", "", "a safetensors file")
      .option("how", "trainer", "or session")
      .option("validated", "77", "rows")
      .defaults([](cohort::Options& options) { options.max_epochs = 1; })
      .run(argc, argv, [](cohort::App& app) {
        Rows data(app.option("data"), app.integer_option("validated"));
        if (app.option("how") == "session") return measure_in_own_loop(app, data);
        Measured net;
        auto trainer = app.trainer();
        print(app, "fit", trainer.fit(net, data));
        print(app, "validate", trainer.validate(net, data));
      });
}

}  // namespace metrics_program
