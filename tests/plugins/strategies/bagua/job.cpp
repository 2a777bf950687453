#include "job.hpp"

#include <cohort/host/error.hpp>

namespace cohort::test {
namespace {

std::vector<toy::ToyParameter> parameters_of(const Training& training) {
  std::vector<toy::ToyParameter> parameters;
  for (const uint64_t size : training.sizes) parameters.push_back({"p" + std::to_string(parameters.size()), size});
  return parameters;
}

toy::ToyOptimizer optimizer_of(const Training& training) {
  toy::ToyOptimizer optimizer = training.optimizer;
  optimizer.learning_rate = training.learning_rate;
  optimizer.momentum = training.momentum;
  return optimizer;
}

}  // namespace

std::vector<std::vector<double>> by_parameter(const Training& training, const std::function<float(uint64_t)>& value) {
  std::vector<std::vector<double>> values(training.sizes.size());
  uint64_t i = 0;
  for (size_t parameter = values.size(); parameter-- > 0;) {
    for (uint64_t k = 0; k < training.sizes[parameter]; ++k) values[parameter].push_back(double{value(i++)});
  }
  return values;
}

Flat flattened(const std::vector<std::vector<double>>& by_parameter) {
  Flat flat;
  for (size_t parameter = by_parameter.size(); parameter-- > 0;) {
    for (const double value : by_parameter[parameter]) flat.push_back(static_cast<float>(value));
  }
  return flat;
}

Trainee::Trainee(toy::ToyRank& rank, const Training& training)
    : training_(training),
      rank_(rank),
      model_(parameters_of(training), 0.0, optimizer_of(training)),
      engine_([&]() -> host::StepEngine& {
        toy::ToyState state = model_.state();
        // Only rank 0's weights count.
        state.weights = by_parameter(training, [&](uint64_t i) { return rank.rank == 0 ? first_weight(i) : -1.0f; });
        model_.set_state(state);
        return rank.runtime.configure(model_);
      }()) {}

Trainee::~Trainee() {
  rank_.runtime.release_model(model_);
}

void Trainee::step(int index) {
  for (int micro = 0; micro < training_.micro_batches; ++micro) {
    const int drawn_for = index * training_.micro_batches + micro;
    const auto values = by_parameter(training_, [&](uint64_t i) {
      const bool is_zero = index >= training_.zero_from || (i == 0 && index < training_.dead_until);
      return is_zero ? 0.0f : gradient(rank(), drawn_for, i);
    });
    rank_.backward(engine_, model_, values, micro + 1 == training_.micro_batches);
  }
  rank_.update(engine_, model_);
}

void Trainee::step_on(const std::vector<std::vector<double>>& gradients) {
  rank_.backward(engine_, model_, gradients, true);
  rank_.update(engine_, model_);
}

void Trainee::steps(int begin, int end) {
  for (int index = begin; index < end; ++index) step(index);
}

Flat Trainee::finish() {
  runtime().pause(COHORT_PAUSE_END);
  return weights();
}

toy::ToyJob job_of(const Training& training) {
  toy::ToyJob job;
  job.plugin_dirs = {COHORT_TEST_PLUGIN_DIR, COHORT_TEST_LAYERS};
  for (const auto& layer : training.layers) job.layers.push_back(host::parse_spec(layer, "--layer"));
  job.strategy = host::parse_spec("bagua:" + training.algorithm, "--strategy");
  // Under layers buckets lie in memory of malloc, which AddressSanitizer watches.
  const char* const wire =
      training.nodes > 1 || !training.layers.empty() ? "sim,over=shm,bandwidth=100Gbit,latency=1us" : "shm";
  job.collective = host::parse_spec(wire, "--collective");
  job.world_size = training.ranks;
  job.num_nodes = training.nodes;
  job.bucket_size = training.bucket_size;
  return job;
}

void on_ranks(const Training& training, const std::function<void(Trainee&)>& body) {
  toy::run_ranks(job_of(training), [&](toy::ToyRank& rank) {
    Trainee trainee(rank, training);
    body(trainee);
  });
}

std::vector<ByRank> trained(const Training& training) {
  const auto ranks = static_cast<size_t>(training.ranks);
  std::vector<ByRank> weights(static_cast<size_t>(training.steps) + 1, ByRank(ranks));
  on_ranks(training, [&](Trainee& trainee) {
    const auto rank = static_cast<size_t>(trainee.rank());
    for (int step = 0; step < training.steps; ++step) {
      trainee.step(training.begin + step);
      weights[static_cast<size_t>(step)][rank] = trainee.weights();
    }
    weights.back()[rank] = trainee.finish();
  });
  return weights;
}

std::string failure_of(const Training& training) {
  try {
    const auto texts = toy::run_ranks_to_failure(job_of(training), [&](toy::ToyRank& rank) {
      Trainee trainee(rank, training);
      trainee.steps(0, training.steps);
      trainee.finish();
    });
    return texts[0];
  } catch (const Error& error) {  // before there were ranks
    return error.what();
  }
}

Flat compressed_mean(ByRank ranks, float divisor) {
  const size_t n = ranks.size(), numel = ranks[0].size(), chunk = (numel + n - 1) / n;
  Flat result;
  for (Flat& own : ranks) own.resize(n * chunk, 0.0f);
  for (size_t owner = 0; owner < n; ++owner) {
    ByRank received;
    for (const Flat& own : ranks) {
      const auto begin = own.begin() + static_cast<std::ptrdiff_t>(owner * chunk);
      received.push_back(through_codec(Flat(begin, begin + static_cast<std::ptrdiff_t>(chunk))));
    }
    const Flat mean = through_codec(divided(sum_of(received), divisor));
    result.insert(result.end(), mean.begin(), mean.end());
  }
  result.resize(numel);
  return result;
}

}  // namespace cohort::test
