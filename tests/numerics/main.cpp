// cohort_numerics: trains one of the reference models on data from a file and saves the weights, for comparison with a
// reference that was computed elsewhere.
#include <sstream>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>
#include <cohort/precision.hpp>
#include <cohort/program.hpp>
#include <cohort/weights.hpp>

#include "attention.hpp"
#include "bare_loop.hpp"
#include "file_data.hpp"
#include "models/model.hpp"
#include "step_clock.hpp"

namespace {

at::ScalarType dtype_of(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "float64") return at::kDouble;
  throw cohort::UserError("--dtype=" + name + " is unknown; choose float32 or float64");
}

/// Reads "fc1=2,fc2=1": the first epochs that train these parts.
std::shared_ptr<cohort::Callback> unfreezing(const std::string& text) {
  std::map<std::string, int64_t> epochs;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    epochs[part.substr(0, part.find('='))] = std::stoll(part.substr(part.find('=') + 1));
  }
  return std::make_shared<cohort::GradualUnfreezing>(epochs);
}

bool is_bare(const std::string& value) {
  if (value != "true" && value != "false") throw cohort::UserError("--bare=" + value + ": choose true or false");
  return value == "true";
}

/// Trains under cohort, or with --bare by LibTorch alone.
void fit(cohort::App& app, cohort::Module& model, numerics::FileData& data) {
  const auto& runtime = app.runtime();
  const auto& times = app.option("step-times");
  const auto clock = std::make_shared<numerics::StepClock>(data.steps(), runtime.device());
  if (is_bare(app.option("bare"))) {
    if (runtime.world_size() > 1) throw cohort::UserError("--bare=true trains on one rank; choose --devices=1");
    numerics::train_bare(model, *data.train().dataset, runtime.device(), *clock);
  } else {
    std::vector<std::shared_ptr<cohort::Callback>> callbacks;
    if (!times.empty()) callbacks.push_back(clock);  // it waits for the device, which others do not
    if (const auto& parts = app.option("unfreeze"); !parts.empty()) callbacks.push_back(unfreezing(parts));
    app.trainer({.callbacks = std::move(callbacks)}).fit(model, data);
  }
  if (!times.empty() && runtime.is_first()) clock->write(times);
}

void train(cohort::App& app) {
  const auto dtype = dtype_of(app.option("dtype"));
  numerics::choose_attention(app.option("attention"));
  const auto model = numerics::make_model(app.option("model"), {app.option("optimizer"), app.number_option("lr")});
  cohort::convert(*model, dtype);
  if (const auto& file = app.option("init-from"); !file.empty()) cohort::load_weights(*model, file);
  numerics::FileData data(app.option("data-from"), app.integer_option("steps"), app.runtime().world_size(), dtype,
                          static_cast<int>(app.integer_option("workers")));
  fit(app, *model, data);
  const auto& final_weights = app.option("save-final");
  if (!final_weights.empty() && app.runtime().is_first()) cohort::save_weights(*model, final_weights);
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("cohort_numerics")
      .option("model", "linear32",
              "linear32, odd, batch_softmax, batch_softmax_gathered, adversarial, adversarial_by_hand, mlp_small, "
              "mlp_25m, mlp_400m, resnet18_cifar, gpt_mini, gpt_8, table_4mib or table_4gib")
      .option("init-from", "", "safetensors file with the initial weights")
      .option("data-from", "", "safetensors file with x and y of shape [steps, world, batch, ...]")
      .option("save-final", "", "safetensors file for the trained weights")
      .option("step-times", "", "JSON file for the milliseconds of rank 0's steps")
      .option("bare", "false", "true: a plain loop of LibTorch in place of the trainer, on one rank")
      .option("workers", "0", "threads that read batches ahead")
      .option("steps", "0", "rows of x to train on; 0: all")
      .option("optimizer", "", "sgd, sgd_momentum, adam, adamw or lbfgs; empty: the model's own")
      .option("unfreeze", "", "NAME=EPOCH,...: the first epochs that train parts of the model; empty: all, at once")
      .option("lr", "0", "learning rate; 0: the model's own")
      .option("dtype", "float32", "float32 or float64")
      .option("attention", "fused", "fused, where the device has such a kernel, or math: the same sums on all devices")
      .defaults([](cohort::Options& options) { options.max_epochs = 1; })
      .run(argc, argv, train);
}
