// Trains one of the models of balanced_models.hpp, for balanced_test.py. --loops says what runs after each other; what
// is predicted goes to standard output with all its digits, the trained weights to --save-final.
#include "balanced_models.hpp"

#include <iomanip>
#include <iostream>
#include <sstream>

namespace balanced_program {
namespace {

struct Data final : cohort::DataModule {
  Data(const std::string& model, int64_t samples, int64_t size) : name(model), count(samples), batch(size) {}
  cohort::Loader train() override { return {.dataset = points(count, 1), .batch_size = batch}; }
  cohort::Loader validation() override { return {.dataset = points(12, 2), .batch_size = 8}; }
  cohort::Loader test() override { return {.dataset = points(12, 3), .batch_size = 8}; }
  cohort::Loader predict() override { return {.dataset = points(12, 4), .batch_size = 8}; }
  std::shared_ptr<cohort::Dataset> points(int64_t samples, uint64_t seed) const {
    return std::make_shared<cohort::TensorDataset>(samples_of(name, samples, seed));
  }

  const std::string name;
  const int64_t count, batch;
};

void print(const cohort::Value& predicted) {
  if (predicted.empty()) return;  // on ranks but the first
  const at::Tensor all = predicted.tensor().to(torch::kDouble).flatten();
  std::ostringstream text;
  text << std::setprecision(17);
  for (int64_t i = 0; i < all.numel(); ++i) text << all[i].item<double>() << '\n';
  std::cout << text.str() << std::flush;
}

void train_in_own_loop(cohort::App& app, cohort::Module& model, Data& data) {
  auto session = app.session(model, model.configure_optimizers());
  const std::vector<int64_t> first{0, 1};
  session.begin();
  session.backward(model.training_step(data.train().dataset->get(first), 0).tensor());
  session.step();
  session.finish();
}

void run_loop(cohort::App& app, const std::string& loop, cohort::Module& model, Data& data) {
  if (loop == "fit") {
    app.trainer().fit(model, data);
  } else if (loop == "validate") {
    app.trainer().validate(model, data);
  } else if (loop == "test") {
    app.trainer().test(model, data);
  } else if (loop == "predict") {
    print(app.trainer().predict(model, data));
  } else if (loop == "own") {
    train_in_own_loop(app, model, data);
  } else {
    throw cohort::UserError("--loops: '" + loop + "' is unknown");
  }
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("balanced_program")
      .option("model", "gpt", "a name of make_model")
      .option("optimizer", "adam", "adam, sgd or lbfgs")
      .option("samples", "48", "of the training, in a fixed order")
      .option("batch", "8", "samples of a batch of training")
      .option("fail-at", "-1", "training_step fails on the piece with this sample")
      .option("loops", "fit", "fit, validate, test, predict or own, separated by +")
      .option("save-final", "", "safetensors file for the trained weights")
      .defaults([](cohort::Options& options) { options.max_epochs = 1; })
      .run(argc, argv, [](cohort::App& app) {
        const auto model = make_model({app.option("model"), app.option("optimizer"), app.integer_option("fail-at")});
        Data data(app.option("model"), app.integer_option("samples"), app.integer_option("batch"));
        std::istringstream loops(app.option("loops"));
        for (std::string loop; std::getline(loops, loop, '+');) run_loop(app, loop, *model, data);
        const auto& file = app.option("save-final");
        if (!file.empty() && app.runtime().is_first()) cohort::save_weights(*model, file);
      });
}

}  // namespace balanced_program
