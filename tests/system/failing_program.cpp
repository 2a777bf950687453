// A program in which one rank fails. Started by failure_test.py.
//   --how=throw       the rank's training_step throws in batch 5; --late-rank computes for a second there
//   --how=order       it calls a barrier where the others reduce
//   --how=type        it reduces float64 where the others reduce float32
//   --how=busy        it computes for longer than the others wait
//   --how=die         it is killed before the ranks compare their models
#include <chrono>
#include <csignal>
#include <thread>

#include <cohort/cohort.hpp>
#include <cohort/host/error.hpp>

namespace {

struct Line : cohort::ModuleFor<Line> {
  Line() : fc(register_module("fc", torch::nn::Linear(1, 1))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    if (throws && index == 5) throw std::runtime_error("the disk is on fire");
    if (index == 5) std::this_thread::sleep_for(time_of_batch_5);
    return torch::mse_loss(fc(batch[0]), batch[1]);
  }
  cohort::Optimizers configure_optimizers() override {
    if (dies) std::raise(SIGKILL);
    return torch::optim::SGD(parameters(), 0.1);
  }
  torch::nn::Linear fc;
  bool throws = false, dies = false;
  std::chrono::seconds time_of_batch_5{0};
};

struct Points : cohort::DataModule {
  cohort::Loader train() override {
    const auto x = torch::linspace(-1, 1, 256).unsqueeze(1);
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{x, 2 * x}), .batch_size = 4};
  }
};

void fail(cohort::App& app, const std::string& how, bool here, bool late) {
  if (how == "order") {
    double value = 1;
    here ? app.runtime().barrier() : app.runtime().all_reduce_sum({&value, 1});
    return;
  }
  Line model;
  if (how == "type") {
    auto session = app.session(model, model.configure_optimizers());
    session.all_reduce(torch::ones({10}, here ? torch::kFloat64 : torch::kFloat32));
    return;
  }
  model.throws = here && how == "throw";
  if (here && how == "busy") model.time_of_batch_5 = std::chrono::seconds(9);
  if (late) model.time_of_batch_5 = std::chrono::seconds(1);
  model.dies = here && how == "die";
  Points data;
  app.trainer().fit(model, data);
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("failing_program")
      .option("how", "", "what goes wrong: throw, order, type, busy, die")
      .option("failing-rank", "1", "the rank in which it goes wrong")
      .option("late-rank", "-1", "a rank that takes a second longer than the others to notice")
      .defaults([](cohort::Options& options) { options.max_epochs = 2; })
      .run(argc, argv, [](cohort::App& app) {
        const int64_t rank = app.runtime().rank();
        fail(app, app.option("how"), rank == app.integer_option("failing-rank"),
             rank == app.integer_option("late-rank"));
      });
}
