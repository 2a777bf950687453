// horovod on the toy host: what becomes of gradients, rates and changes of weights, beside formulas written here.
#include <cmath>

#include <gmock/gmock.h>

#include <cohort/toy_host/toy_host.hpp>

namespace cohort::toy {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;
using Gradients = std::vector<Values>;

ToyJob horovod_job(int world_size, const char* op = "average") {
  ToyJob job;
  job.plugin_dirs = {COHORT_TEST_PLUGIN_DIR};
  job.strategy = StrategySpec("horovod").set("op", op);
  job.collective = CollectiveSpec("shm");
  job.world_size = world_size;
  return job;
}

const std::vector<ToyParameter> kParameters{
    {"a", 33, COHORT_FLOAT64}, {"b", 2}, {"frozen", 3, COHORT_FLOAT32, false}, {"c", 7, COHORT_FLOAT64}, {"d", 64}};

// Whole numbers of either sign; other ones for each rank, step and parameter.
Values gradient_of(int rank, int step, size_t parameter) {
  const uint64_t numel = kParameters[parameter].requires_grad ? kParameters[parameter].numel : 0;
  Values values(numel);
  for (uint64_t i = 0; i < numel; ++i) {
    const uint64_t bits = (i + 1) * 2654435761u + static_cast<uint64_t>(rank + 1) * 40503u +
                          static_cast<uint64_t>(step) * 977u + parameter * 31u;
    values[i] = static_cast<double>(bits / 7 % 17) - 8.0;
  }
  return values;
}

Gradients gradients_of(int rank, int step) {
  Gradients gradients;
  for (size_t parameter = 0; parameter < kParameters.size(); ++parameter) {
    gradients.push_back(gradient_of(rank, step, parameter));
  }
  return gradients;
}

// Every rank's weights after these steps, which have to be the same on all.
std::vector<Values> trained(const ToyJob& job, const ToyOptimizer& optimizer, int steps) {
  std::vector<std::vector<Values>> by_rank(static_cast<size_t>(job.world_size));
  run_ranks(job, [&](ToyRank& rank) {
    ToyModel model(kParameters, 1.0, optimizer);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int step = 0; step < steps; ++step) rank.step(engine, model, gradients_of(rank.rank, step));
    by_rank[static_cast<size_t>(rank.rank)] = model.state().weights;
    EXPECT_EQ(model.learning_rate(), optimizer.learning_rate);
    rank.runtime.release_model(model);
  });
  EXPECT_THAT(by_rank, Each(by_rank[0]));
  return by_rank[0];
}

void expect_near(const std::vector<Values>& got, const std::vector<Values>& wanted) {
  for (size_t parameter = 0; parameter < wanted.size(); ++parameter) {
    const double rounding = kParameters[parameter].dtype == COHORT_FLOAT64 ? 1e-12 : 1e-5;
    for (size_t i = 0; i < wanted[parameter].size(); ++i) {
      EXPECT_NEAR(got[parameter][i], wanted[parameter][i], rounding * (1 + std::abs(wanted[parameter][i])))
          << kParameters[parameter].name << " [" << i << "]";
    }
  }
}

std::vector<Values> first_weights() {
  std::vector<Values> weights;
  for (const auto& parameter : kParameters) weights.emplace_back(parameter.numel, 1.0);
  return weights;
}

// w = w - rate x (sum over the ranks) x factor, with numbers that are exact.
std::vector<Values> stepped(int ranks, int steps, double rate, double factor) {
  auto weights = first_weights();
  for (int step = 0; step < steps; ++step) {
    for (size_t parameter = 0; parameter < kParameters.size(); ++parameter) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Values gradient = gradient_of(rank, step, parameter);
        for (size_t i = 0; i < gradient.size(); ++i) weights[parameter][i] -= rate * factor * gradient[i];
      }
    }
  }
  return weights;
}

TEST(Horovod, AveragesAndMultipliesTheLearningRateByTheNumberOfRanks) {
  for (const int ranks : {2, 3, 4}) {
    expect_near(trained(horovod_job(ranks), {.learning_rate = 0.125}, 3), stepped(ranks, 3, 0.125, 1.0));
  }
}

TEST(Horovod, LeavesTheLearningRateAloneWhereAsked) {
  ToyJob job = horovod_job(2);
  job.strategy.set("scale_lr", false);
  expect_near(trained(job, {.learning_rate = 0.125}, 3), stepped(2, 3, 0.125, 0.5));
}

TEST(Horovod, AddsUpWithTheRateAsItIs) {
  for (const int ranks : {2, 3}) {
    expect_near(trained(horovod_job(ranks, "sum"), {.learning_rate = 0.125}, 3), stepped(ranks, 3, 0.125, 1.0));
  }
}

TEST(Horovod, SumsOfSixteenBitsAreThoseOfTheRoundedGradients) {
  ToyJob job = horovod_job(2, "sum");  // whole numbers up to 16 are exact in fp16
  job.strategy.set("compression", "fp16");
  expect_near(trained(job, {.learning_rate = 0.125}, 3), stepped(2, 3, 0.125, 1.0));
}

TEST(Horovod, AlsoTrainsAlone) {
  for (const char* op : {"average", "sum", "adasum"}) {
    ToyJob job = horovod_job(1, op);
    job.collective = {};
    expect_near(trained(job, {.learning_rate = 0.125}, 2), stepped(1, 2, 0.125, 1.0));
  }
}

TEST(Horovod, RefusesToSumTwoBackwardPassesOfOneStep) {
  for (const std::string& text : run_ranks_to_failure(horovod_job(2, "sum"), [](ToyRank& rank) {
         ToyModel model(kParameters, 1.0, ToyOptimizer{});
         host::StepEngine& engine = rank.runtime.configure(model);
         engine.begin(true);
         engine.end_backward();
         engine.select(0);
         engine.end_backward();
       })) {
    EXPECT_THAT(text, HasSubstr("op=sum: two backward passes of one step"));
  }
}

// ---- adasum

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The paper's formula for two changes of a tensor.
Values combined(const Values& a, const Values& b) {
  const double aa = dot(a, a), bb = dot(b, b), ab = dot(a, b);
  Values sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    sum[i] = aa == 0 || bb == 0 ? a[i] + b[i] : a[i] * (1 - ab / (2 * aa)) + b[i] * (1 - ab / (2 * bb));
  }
  return sum;
}

Values combined(std::vector<Values> changes) {
  while (changes.size() > 1) {
    std::vector<Values> level;
    for (size_t i = 0; i < changes.size(); i += 2) level.push_back(combined(changes[i], changes[i + 1]));
    changes = level;
  }
  return changes[0];
}

TEST(Adasum, CombinesTheChangesOfATensorByPairsNearestRanksFirst) {
  for (const int ranks : {2, 4, 8}) {
    SCOPED_TRACE(ranks);
    auto weights = first_weights();
    for (int step = 0; step < 3; ++step) {
      for (size_t parameter = 0; parameter < kParameters.size(); ++parameter) {
        if (!kParameters[parameter].requires_grad) continue;
        std::vector<Values> changes;
        for (int rank = 0; rank < ranks; ++rank) {
          changes.push_back(gradient_of(rank, step, parameter));
          for (double& value : changes.back()) value *= -0.125;
        }
        const Values change = combined(changes);
        for (size_t i = 0; i < change.size(); ++i) weights[parameter][i] += change[i];
      }
    }
    expect_near(trained(horovod_job(ranks, "adasum"), {.learning_rate = 0.125}, 3), weights);
  }
}

// Each rank steps with its own momentum; only the changes of the weights meet.
TEST(Adasum, LeavesTheStateOfOptimizersToTheRanks) {
  run_ranks(horovod_job(2, "adasum"), [](ToyRank& rank) {
    ToyModel model({{"w", 2, COHORT_FLOAT64}}, 0.0, ToyOptimizer{.learning_rate = 1, .momentum = 0.5});
    host::StepEngine& engine = rank.runtime.configure(model);
    // Orthogonal changes add up.
    const Gradients own{rank.rank == 0 ? Values{1, 0} : Values{0, 2}};
    for (int step = 0; step < 2; ++step) rank.step(engine, model, own);
    EXPECT_THAT(model.weights(0), ElementsAre(-1 - 1.5, -2 - 3));
    EXPECT_EQ(model.state().momenta[0], (rank.rank == 0 ? Values{1.5, 0} : Values{0, 3}));
    rank.runtime.release_model(model);
  });
}

TEST(Adasum, OfEqualChangesIsOneOfThem) {
  run_ranks(horovod_job(4, "adasum"), [](ToyRank& rank) {
    ToyModel model({{"w", 3, COHORT_FLOAT64}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.step(engine, model, Gradients{{1, -2, 3}});
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(model.weights(0)[i], (Values{-1, 2, -3})[i], 1e-12);
    rank.runtime.release_model(model);
  });
}

TEST(Adasum, TakesTheOthersChangeWhereARankHasNone) {
  run_ranks(horovod_job(2, "adasum"), [](ToyRank& rank) {
    ToyModel model({{"w", 2, COHORT_FLOAT64}, {"v", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.step(engine, model, rank.rank == 0 ? Gradients{{}, {1}} : Gradients{{3, 4}, {0}});
    EXPECT_THAT(model.weights(0), ElementsAre(-3, -4));
    EXPECT_THAT(model.weights(1), ElementsAre(-1));
    rank.runtime.release_model(model);
  });
}

TEST(Adasum, SendsWhatARingWouldBesideAFewProducts) {
  constexpr uint64_t kNumel = 100'000;
  run_ranks(horovod_job(4, "adasum"), [](ToyRank& rank) {
    ToyModel model({{"w", kNumel}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.step(engine, model, Gradients{Values(kNumel, rank.rank + 1.0)});
    const uint64_t ring = 2 * 3 * kNumel * sizeof(float) / 4;
    EXPECT_GE(rank.runtime.bytes_sent(), ring - 16);
    EXPECT_LE(rank.runtime.bytes_sent(), ring + 1000);
    rank.runtime.release_model(model);
  });
}

// ---- what it refuses

std::string refusal(StrategySpec strategy, int external_ranks) {
  host::LogSettings quiet;
  quiet.level = host::LogLevel::kOff;
  host::Log log(quiet);
  host::PluginSearch search;
  const std::vector<std::filesystem::path> folders{COHORT_TEST_PLUGIN_DIR};
  search.directories = host::default_directories(folders, "", "");
  host::PluginHost plugins(search, log);
  cohort_job job{};
  job.struct_size = sizeof job;
  job.device_type = COHORT_DEVICE_CPU;
  job.num_devices = std::max(1, external_ranks);
  job.num_nodes = 1;
  job.external_world_size = external_ranks;
  try {
    const cohort_plan plan = host::plan_of(plugins, strategy, {}, job, log);
    EXPECT_EQ(plan.processes_per_node, job.num_devices);
    EXPECT_EQ(plan.launch, COHORT_LAUNCH_NONE);
    EXPECT_STREQ(plan.collectives, "mpi,shm,hier,gloo,nccl");
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Horovod, IsPlannedForRanksThatADriverHasStartedAlone) {
  EXPECT_EQ(refusal(StrategySpec("horovod"), 1), "");
  EXPECT_EQ(refusal(StrategySpec("horovod"), 3), "");
  EXPECT_EQ(refusal(StrategySpec("horovod").set("op", "adasum"), 8), "");
  EXPECT_THAT(refusal(StrategySpec("horovod"), 0),
              AllOf(HasSubstr("mpirun -np 2 PROGRAM --strategy=horovod"), HasSubstr("cohort run -np 2 PROGRAM")));
}

TEST(Horovod, RefusesWhatDoesNotGoTogether) {
  for (const int ranks : {3, 6}) {
    EXPECT_THAT(refusal(StrategySpec("horovod").set("op", "adasum"), ranks),
                AllOf(HasSubstr("power of two, not " + std::to_string(ranks)), HasSubstr("op=average")));
  }
  EXPECT_THAT(refusal(StrategySpec("horovod").set("op", "adasum").set("compression", "fp16"), 2),
              HasSubstr("leave one of the two out"));
  EXPECT_THAT(refusal(StrategySpec("horovod").set("backward_passes_per_step", 4), 2),
              AllOf(HasSubstr("backward_passes_per_step=4"), HasSubstr("--accumulate-grad-batches")));
  EXPECT_THAT(refusal(StrategySpec("horovod").set("op", "mean"), 2), HasSubstr("average"));
}

}  // namespace
}  // namespace cohort::toy
