// cohort_numerics: trains one of the reference models on data from a file and saves the weights, for comparison with a
// reference that was computed elsewhere.
#include <sstream>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>
#include <cohort/program.hpp>
#include <cohort/weights.hpp>

#include "attention.hpp"
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
cohort::TrainerDefaults unfreezing(const std::string& text) {
  std::map<std::string, int64_t> epochs;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    epochs[part.substr(0, part.find('='))] = std::stoll(part.substr(part.find('=') + 1));
  }
  if (epochs.empty()) return {};
  return {.callbacks = {std::make_shared<cohort::GradualUnfreezing>(epochs)}};
}

void train(cohort::App& app) {
  const auto dtype = dtype_of(app.option("dtype"));
  numerics::choose_attention(app.option("attention"));
  const auto model = numerics::make_model(app.option("model"), {app.option("optimizer"), app.number_option("lr")});
  model->to(dtype);
  if (const auto& file = app.option("init-from"); !file.empty()) cohort::load_weights(*model, file);
  numerics::FileData data(app.option("data-from"), app.integer_option("steps"), app.runtime().world_size(), dtype);
  numerics::StepClock clock(data);
  app.trainer(unfreezing(app.option("unfreeze"))).fit(*model, clock);
  const auto& times = app.option("step-times");
  if (!times.empty() && app.runtime().is_first()) clock.write(times);
  const auto& final_weights = app.option("save-final");
  if (!final_weights.empty() && app.runtime().is_first()) cohort::save_weights(*model, final_weights);
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("cohort_numerics")
      .option("model", "linear32",
              "linear32, odd, batch_softmax, batch_softmax_gathered, adversarial, adversarial_by_hand, mlp_small, "
              "mlp_25m, resnet18_cifar or gpt_mini")
      .option("init-from", "", "safetensors file with the initial weights")
      .option("data-from", "", "safetensors file with x and y of shape [steps, world, batch, ...]")
      .option("save-final", "", "safetensors file for the trained weights")
      .option("step-times", "", "JSON file for the milliseconds of rank 0's steps")
      .option("steps", "0", "rows of x to train on; 0: all")
      .option("optimizer", "", "sgd, sgd_momentum, adam, adamw or lbfgs; empty: the model's own")
      .option("unfreeze", "", "NAME=EPOCH,...: the first epochs that train parts of the model; empty: all, at once")
      .option("lr", "0", "learning rate; 0: the model's own")
      .option("dtype", "float32", "float32 or float64")
      .option("attention", "fused", "fused, where the device has such a kernel, or math: the same sums on all devices")
      .defaults([](cohort::Options& options) { options.max_epochs = 1; })
      .run(argc, argv, train);
}
