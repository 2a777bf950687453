// A program that links cohort's core, and no library above it, trains with a Session.
#include <cohort/session.hpp>

#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/sgd.h>

#include <cohort/host/connected_rank.hpp>
#include <cohort/host/error.hpp>

namespace cohort {
namespace {

/// A job of one rank, connected.
struct Job {
  Job() { runtime.connect(); }
  ~Job() { runtime.shutdown(); }

  host::Selection select() {
    const host::Planner planner = [this](const StrategySpec& strategy, std::span<const Spec> layers,
                                         const cohort_job& job) {
      return host::plan_of(plugins, strategy, layers, job, log);
    };
    return host::select(plugins, options, topology, planner);
  }

  Options options;
  host::Topology topology;
  host::Log log{host::LogSettings{host::LogLevel::kOff, host::LogFormat::kText, {}, 0, 1}};
  host::PluginHost plugins{{.files = {}, .directories = {COHORT_TEST_PLUGINS}}, log};
  host::Selection selection = select();
  Runtime runtime{{options, plugins, selection, topology, log}};
};

at::Tensor inputs(int64_t batch) {
  return torch::arange(6, torch::kFloat64).reshape({2, 3}).add(batch).sin();
}
at::Tensor loss(torch::nn::Linear& net, int64_t batch) {
  return torch::mse_loss(net(inputs(batch)), torch::ones({2, 1}, torch::kFloat64));
}
torch::nn::Linear model() {
  torch::manual_seed(3);
  torch::nn::Linear net(3, 1);
  net->to(torch::kFloat64);
  return net;
}

TEST(Session, TrainsInAProgramThatLinksTheCoreAlone) {
  Job job;
  torch::nn::Linear net = model(), reference = model();
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  {
    Session session(job.runtime, *net, torch::optim::SGD(net->parameters(), 0.1));
    EXPECT_EQ(&session.module(), net.get());
    EXPECT_EQ(&session.runtime(), &job.runtime);
    EXPECT_EQ(session.optimizers().size(), 1U);
    session.clip_gradients(GradientClip{.by = GradientClip::By::kValue, .limit = 0.05});
    for (int64_t step = 0; step < 3; ++step) {
      {
        const auto guard = session.no_sync();
        session.begin();
        session.backward(loss(net, 2 * step), 0.5);
      }
      session.begin();
      session.backward(loss(net, 2 * step + 1), 0.5);
      session.step();
    }
    EXPECT_EQ(session.steps(), 3U);
    session.check_equal_weights();
    session.finish();
    EXPECT_TRUE(torch::equal(session.all_reduce(inputs(0)), inputs(0)));
    EXPECT_TRUE(torch::equal(session.all_gather(inputs(0)), inputs(0).unsqueeze(0)));
  }
  for (int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    for (const int64_t micro : {0, 1}) (loss(reference, 2 * step + micro) * 0.5).backward();
    torch::nn::utils::clip_grad_value_(reference->parameters(), 0.05);
    optimizer.step();
  }
  EXPECT_TRUE(torch::allclose(net->weight, reference->weight, 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(net->bias, reference->bias, 1e-12, 1e-12));
  EXPECT_FALSE(torch::allclose(net->weight, model()->weight)) << "nothing was trained";
}

TEST(Session, RefusesSchedulesThatNobodyWouldFollow) {
  Job job;
  torch::nn::Linear net = model();
  try {
    Session session(job.runtime, *net, Optimizers(torch::optim::SGD(net->parameters(), 0.1), schedule::cosine()));
    FAIL() << "the schedule was taken";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("only the Trainer's fit follows"));
  }
}

}  // namespace
}  // namespace cohort
