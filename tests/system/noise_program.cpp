// Draws random numbers in the model, in two trainings and after them, for rank_noise_test.py; --session: in a loop of
// the program's own. Each draw is a line "PLACE rank=R value".
#include <cohort/checkpoint.hpp>
#include <cohort/cohort.hpp>

#include <cstdio>

namespace noise_program {
namespace {

void say(const std::string& place, int rank, double value) {
  std::printf("%s rank=%d %.9f\n", place.c_str(), rank, value);
  std::fflush(stdout);
}

double drawn() {
  return torch::rand({1}, torch::kDouble).item<double>();
}

struct Net final : cohort::ModuleFor<Net> {
  void on_train_start() override { say("start", rank(), drawn()); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    say("fit" + std::to_string(fits) + " step" + std::to_string(global_step()), rank(), drawn());
    return fc(batch.tensor().unsqueeze(1)).square().mean();
  }
  void on_fit_end() override { say("end" + std::to_string(fits), rank(), drawn()); }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.01); }

  int fits = 1;
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(1, 1));
};

struct Data final : cohort::DataModule {
  cohort::Loader train() override {
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{torch::linspace(0, 1, 24)}),
            .batch_size = 2};
  }
};

void own_loop(cohort::App& app) {
  Net net;
  cohort::Session session(app.runtime(), net, cohort::Optimizers(torch::optim::SGD(net.parameters(), 0.01)));
  for (int step = 0; step < 2; ++step) {
    session.begin();
    say("session step" + std::to_string(step), app.runtime().rank(), drawn());
    session.backward(net.fc(torch::ones({1, 1})).sum());
    session.step();
  }
  session.finish();
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("noise")
      .option("session", "no", "yes: a loop of the program's own")
      .run(argc, argv, [](cohort::App& app) {
        if (app.option("session") == "yes") return own_loop(app);
        Net net;
        Data data;
        for (; net.fits <= 2; ++net.fits) app.trainer({.max_steps = 3}).fit(net, data);
      });
}

}  // namespace noise_program
