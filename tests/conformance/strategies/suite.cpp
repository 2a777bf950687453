#include "suite.hpp"

#include <algorithm>
#include <iterator>

#include "fork_store.hpp"

namespace cohort::conformance {
namespace {

toy::ToyOptimizer optimizer_of(const Net& net) {
  toy::ToyOptimizer optimizer;
  optimizer.kind = subject().given().optimizer;
  optimizer.learning_rate = Net::kLearningRate;
  optimizer.momentum = net.momentum;
  return optimizer;
}

}  // namespace

Trainee::Trainee(toy::ToyRank& rank, const Net& net, const Shape& shape)
    : net_(net),
      rank_(rank),
      model_(net.parameters, 0, optimizer_of(net), static_cast<uint32_t>(shape.replicas)),
      engine_([&]() -> host::StepEngine& {
        toy::ToyState state = model_.state();
        state.weights = first_weights(net, rank.rank);
        model_.set_state(state);
        return rank.runtime.configure(model_);
      }()) {}

Trainee::~Trainee() {
  rank_.runtime.release_model(model_);
}

void Trainee::backward(const Backward& backward, const Turn& turn, bool last, uint32_t phase) {
  Gradients gradients = backward({rank_.rank, turn.step, turn.micro});
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (net_.parameters[i % net_.parameters.size()].phase != phase) gradients[i].clear();
  }
  rank_.backward(engine_, model_, gradients, last, phase);
}

Votes Trainee::step(const Backward& own, int index, uint32_t phase) {
  backward(own, {0, index, 0}, true, phase);
  update(phase);
  return engine_.votes();
}

void Trainee::steps(const Backward& own, int begin, int end) {
  for (int index = begin; index < end; ++index) step(own, index);
}

void Trainee::rest(int32_t reason) {
  rank_.runtime.pause(reason);
}

Weights Trainee::finish() {
  rank_.runtime.pause(COHORT_PAUSE_END);
  return weights();
}

toy::ToyJob job_of(const Shape& shape, std::optional<uint64_t> bucket_size, std::chrono::milliseconds timeout) {
  toy::ToyJob job;
  job.plugin_host = &subject().plugins();
  job.strategy = subject().given().strategy;
  job.layers = subject().given().layers;
  job.collective = shape.wire;
  job.world_size = shape.ranks;
  job.num_nodes = shape.nodes;
  job.replicas = shape.replicas;
  job.timeout = timeout * subject().given().patience;
  if (!subject().given().one_bucket) job.bucket_size = bucket_size;
  return job;
}

void on_ranks(const Shape& shape, const Net& net, const std::function<void(Trainee&)>& body) {
  toy::run_ranks(job_of(shape, net.bucket_size), [&](toy::ToyRank& rank) {
    Trainee trainee(rank, net, shape);
    body(trainee);
  });
}

std::vector<Weights> weights_of(const Shape& shape, const Net& net, const std::function<Weights(Trainee&)>& body) {
  std::vector<Weights> all(static_cast<size_t>(shape.ranks));
  on_ranks(shape, net, [&](Trainee& trainee) { all[static_cast<size_t>(trainee.rank())] = body(trainee); });
  return all;
}

std::vector<Weights> trained(const Shape& shape, const Net& net, const Backward& backward, int steps) {
  return weights_of(shape, net, [&](Trainee& trainee) {
    trainee.steps(backward, 0, steps);
    return trainee.finish();
  });
}

std::vector<std::string> failures_of(const toy::ToyJob& job, const std::function<void(toy::ToyRank&)>& body) {
  return toy::run_ranks_to_failure(job, body);
}

std::vector<test::RankEnd> on_processes(const Shape& shape, const Net& net, const std::function<void(Trainee&)>& body,
                                        std::chrono::milliseconds timeout) {
  test::ForkStore store;
  const toy::ToyJob job = job_of(shape, net.bucket_size, timeout);
  return test::run_as_processes(shape.ranks, [&](int rank) {
    toy::run_rank(job, rank, store.handle(), [&](toy::ToyRank& toy) {
      Trainee trainee(toy, net, shape);
      body(trainee);
    });
  });
}

void expect_equal(const Net& net, const std::vector<Weights>& by_rank) {
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    EXPECT_EQ(difference(net, by_rank[0], by_rank[rank]), "") << "on ranks 0 and " << rank;
  }
}

std::vector<Shape> all_shapes() {
  return subject().shapes();
}

std::vector<Shape> shapes_of_one_rank() {
  std::vector<Shape> shapes = all_shapes();
  std::erase_if(shapes, [](const Shape& shape) { return shape.ranks > 1; });
  return shapes;
}

std::vector<Shape> shapes_of_several_ranks() {
  std::vector<Shape> shapes = all_shapes();
  std::erase_if(shapes, [](const Shape& shape) { return shape.ranks == 1; });
  return shapes;
}

std::vector<Shape> shapes_with_replicas() {
  std::vector<Shape> shapes = all_shapes();
  std::erase_if(shapes, [](const Shape& shape) { return shape.replicas == 1; });
  return shapes;
}

std::vector<Shape> largest_shape() {
  const std::vector<Shape> shapes = shapes_of_several_ranks();
  const auto largest = std::ranges::max_element(shapes, {}, &Shape::ranks);
  return largest == shapes.end() ? std::vector<Shape>{} : std::vector<Shape>{*largest};
}

}  // namespace cohort::conformance
