#include "training.hpp"

#include <thread>

namespace cohort::test {

std::vector<toy::ToyParameter> parameters_of(const Training& training) {
  std::vector<toy::ToyParameter> parameters{{"a", 5}, {"large", 300}, {"frozen", 9}, {"b", 64}, {"c", 129}, {"d", 40}};
  for (toy::ToyParameter& parameter : parameters) parameter.dtype = training.dtype;
  parameters[2].requires_grad = false;
  for (const size_t index : {size_t{1}, size_t{3}}) parameters[index].in_host_memory = training.is_in_parts;
  return parameters;
}

std::vector<std::vector<double>> gradients_of(const Training& training, int rank, int step) {
  std::vector<std::vector<double>> gradients;
  for (int replica = 0; replica < training.replicas; ++replica) {
    for (const toy::ToyParameter& parameter : parameters_of(training)) {
      auto& values = gradients.emplace_back();
      if (!parameter.requires_grad || (parameter.name == "a" && step == 1)) continue;  // not reached in that step
      for (uint64_t i = 0; i < parameter.numel; ++i) {
        values.push_back(0.127 * (rank + 1) - 0.251 * replica + 0.01 * static_cast<double>(i % 7) - 0.03 * step);
      }
    }
  }
  return gradients;
}

toy::ToyJob job_of(const Training& training, const char* collective, const MakeDevice& make_device) {
  toy::ToyJob job;
  job.plugin_dirs = {COHORT_TEST_PLUGIN_DIR, FAKE_PLUGIN_DIR};
  job.strategy = host::parse_spec(training.strategy, "--strategy");
  if (training.ranks > 1) job.collective = host::parse_spec(collective, "--collective");
  job.accelerator = make_device ? "fake" : "cpu";
  job.make_device = make_device;
  job.world_size = training.ranks;
  job.num_nodes = training.nodes;
  job.replicas = training.replicas;
  if (!training.one_bucket) job.bucket_size = 512;
  return job;
}

toy::ToyState train_rank(const Training& training, toy::ToyRank& rank) {
  toy::ToyOptimizer optimizer{.kind = training.optimizer, .learning_rate = 0.0625};
  if (optimizer.kind == "sgd") optimizer.momentum = 0.5;
  toy::ToyModel model(parameters_of(training), 1.0, optimizer, static_cast<uint32_t>(training.replicas), rank.device);
  host::StepEngine& engine = rank.runtime.configure(model);
  if (training.clips) rank.clip = {.by = COHORT_CLIP_NORM, .limit = 0.5};
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // async: until the first round is due
  for (int step = 0; step < training.steps; ++step) rank.step(engine, model, gradients_of(training, rank.rank, step));
  rank.runtime.pause(COHORT_PAUSE_END);
  toy::ToyState state = model.state();
  rank.runtime.release_model(model);
  return state;
}

std::vector<toy::ToyState> train(const Training& training, const char* collective, const MakeDevice& make_device) {
  std::vector<toy::ToyState> states(static_cast<size_t>(training.ranks));
  toy::run_ranks(job_of(training, collective, make_device),
                 [&](toy::ToyRank& rank) { states[static_cast<size_t>(rank.rank)] = train_rank(training, rank); });
  return states;
}

std::vector<std::string> train_to_failure(const Training& training, const char* collective,
                                          const MakeDevice& make_device) {
  toy::ToyJob job = job_of(training, collective, make_device);
  job.timeout = std::chrono::seconds(5);
  return toy::run_ranks_to_failure(job, [&](toy::ToyRank& rank) { train_rank(training, rank); });
}

}  // namespace cohort::test
