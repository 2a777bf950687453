// Compares examples/plugins/powersgd with an implementation of the paper's algorithm that sees the gradients of all
// ranks.
//
// A matrix W and a vector are trained towards a target; each rank sees the target with a noise of its own, which is 0
// in the mean.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/toy_host/toy_host.hpp>

#include "plugin_file.hpp"

namespace cohort::toy {
namespace {

using testing::HasSubstr;
using testing::StrEq;
using Matrix = std::vector<std::vector<double>>;
using Values = std::vector<double>;

constexpr size_t kRows = 24, kColumns = 20, kRank = 2, kBias = 5;
constexpr uint32_t kMatrix = 0, kVector = 1;
constexpr int kNever = 1000;
const std::vector<ToyParameter> kParameters{{.name = "w", .numel = kRows * kColumns, .columns = kColumns},
                                            {.name = "b", .numel = kBias}};

Matrix random_matrix(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Matrix m(kRows, Values(kColumns));
  for (Values& row : m) std::ranges::generate(row, [&] { return normal(random); });
  return m;
}

/// Returns the target that each of `ranks` ranks sees. The mean of all is the true target.
std::vector<Matrix> seen_targets(int ranks) {
  const Matrix target = random_matrix(1);
  std::vector<Matrix> seen;
  for (int rank = 0; rank < ranks; ++rank) seen.push_back(random_matrix(100 + static_cast<unsigned>(rank)));
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      double mean = 0;
      for (const Matrix& noise : seen) mean += noise[i][j] / ranks;
      for (Matrix& noise : seen) noise[i][j] += target[i][j] - mean;
    }
  }
  return seen;
}

Values flat(const Matrix& m) {
  Values values;
  for (const Values& row : m) values.insert(values.end(), row.begin(), row.end());
  return values;
}

double distance(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// Returns the plugin's first factors as its source defines them: splitmix64 of seed 0, parameter 0.
Matrix first_factor() {
  Matrix q(kColumns, Values(kRank));
  for (uint64_t i = 0; i < kColumns * kRank; ++i) {
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    q[i / kRank][i % kRank] = static_cast<double>(z >> 11) / std::pow(2.0, 52) - 1.0;
  }
  return q;
}

/// Computes algorithm 1 of the paper for one matrix, in double, by its definition.
class Reference {
 public:
  explicit Reference(int ranks) : error_(static_cast<size_t>(ranks), Matrix(kRows, Values(kColumns, 0.0))) {}

  /// Returns the gradient that all ranks step with.
  Matrix combine(const std::vector<Matrix>& gradients) {
    std::vector<Matrix> m = gradients;
    for (size_t rank = 0; rank < m.size(); ++rank) {
      for (size_t i = 0; i < kRows; ++i) {
        for (size_t j = 0; j < kColumns; ++j) m[rank][i][j] += error_[rank][i][j];
      }
    }
    const Matrix p = orthonormal(first(m));
    q_ = second(m, p);
    Matrix combined(kRows, Values(kColumns, 0.0));
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t j = 0; j < kColumns; ++j) {
        for (size_t k = 0; k < kRank; ++k) combined[i][j] += p[i][k] * q_[j][k];
        for (size_t rank = 0; rank < m.size(); ++rank) error_[rank][i][j] = m[rank][i][j] - combined[i][j];
      }
    }
    return combined;
  }

 private:
  std::vector<Matrix> error_;
  Matrix q_ = first_factor();

  Matrix first(const std::vector<Matrix>& all) const {
    Matrix p(kRows, Values(kRank, 0.0));
    for (const Matrix& m : all) {
      for (size_t i = 0; i < kRows; ++i) {
        for (size_t j = 0; j < kColumns; ++j) {
          for (size_t k = 0; k < kRank; ++k) p[i][k] += m[i][j] * q_[j][k] / static_cast<double>(all.size());
        }
      }
    }
    return p;
  }
  static Matrix second(const std::vector<Matrix>& all, const Matrix& p) {
    Matrix q(kColumns, Values(kRank, 0.0));
    for (const Matrix& m : all) {
      for (size_t i = 0; i < kRows; ++i) {
        for (size_t j = 0; j < kColumns; ++j) {
          for (size_t k = 0; k < kRank; ++k) q[j][k] += m[i][j] * p[i][k] / static_cast<double>(all.size());
        }
      }
    }
    return q;
  }
  static Matrix orthonormal(Matrix p) {
    for (size_t k = 0; k < kRank; ++k) {
      for (size_t other = 0; other < k; ++other) {
        double share = 0;
        for (const Values& row : p) share += row[k] * row[other];
        for (Values& row : p) row[k] -= share * row[other];
      }
      double length = 0;
      for (const Values& row : p) length += row[k] * row[k];
      for (Values& row : p) row[k] /= std::sqrt(length);
    }
    return p;
  }
};

/// Returns the weight of a rank's gradient: rank 0 has no data from step `end_of_rank_0` on, and the others' mean
/// counts.
double weight_of(int rank, int ranks, int step, int end_of_rank_0) {
  if (step < end_of_rank_0) return 1.0;
  return rank == 0 ? 0.0 : ranks / (ranks - 1.0);
}

Values train_reference(int ranks, int steps, double rate, int end_of_rank_0 = kNever) {
  const std::vector<Matrix> seen = seen_targets(ranks);
  Reference reference(ranks);
  Matrix w(kRows, Values(kColumns, 0.0));
  for (int step = 0; step < steps; ++step) {
    std::vector<Matrix> gradients(seen.size(), w);
    for (size_t rank = 0; rank < seen.size(); ++rank) {
      const double weight = weight_of(static_cast<int>(rank), ranks, step, end_of_rank_0);
      for (size_t i = 0; i < kRows; ++i) {
        for (size_t j = 0; j < kColumns; ++j) gradients[rank][i][j] = weight * (w[i][j] - seen[rank][i][j]);
      }
    }
    const Matrix combined = reference.combine(gradients);
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t j = 0; j < kColumns; ++j) w[i][j] -= rate * combined[i][j];
    }
  }
  return flat(w);
}

struct Trained {
  Values weights, bias;
  uint64_t bytes_sent = 0;
};

ToyJob job_of(const std::string& strategy, int ranks, const Spec* layer) {
  ToyJob job;
  job.plugin_dirs = {COHORT_TEST_PLUGINS, COHORT_TEST_EXAMPLES};
  job.strategy = StrategySpec(strategy);
  job.collective = CollectiveSpec("shm");
  job.world_size = ranks;
  if (layer) job.layers = {*layer};
  return job;
}

/// Steps towards what this rank sees; each replica has its share of the gradient.
void step(ToyRank& rank, host::StepEngine& engine, ToyModel& model, const Values& seen, size_t replicas,
          double weight = 1.0) {
  Values gradient = model.weights(kMatrix);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = weight * (gradient[i] - seen[i]) / static_cast<double>(replicas);
  }
  std::vector<Values> gradients;
  for (size_t replica = 0; replica < replicas; ++replica) {
    gradients.push_back(gradient);
    gradients.push_back(Values(kBias, (rank.rank + 1.0) / static_cast<double>(replicas)));
  }
  rank.step(engine, model, gradients);
}

std::vector<Trained> train(const ToyJob& job, int steps, double rate, int end_of_rank_0 = kNever) {
  std::vector<Trained> trained(static_cast<size_t>(job.world_size));
  const std::vector<Matrix> seen = seen_targets(job.world_size);
  run_ranks(job, [&](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, rate, 0.0, static_cast<uint32_t>(job.replicas));
    host::StepEngine& engine = rank.runtime.configure(model);
    const auto own = static_cast<size_t>(rank.rank);
    for (int i = 0; i < steps; ++i) {
      const double weight = weight_of(rank.rank, job.world_size, i, end_of_rank_0);
      step(rank, engine, model, flat(seen[own]), static_cast<size_t>(job.replicas), weight);
    }
    trained[own] = {model.weights(kMatrix), model.weights(kVector), rank.runtime.bytes_sent()};
    rank.runtime.release_model(model);
  });
  return trained;
}

class PowerSgd : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PowerSgd, testing::Values(2, 3, 4));

TEST_P(PowerSgd, StepsAsTheReferenceDoes) {
  const Spec layer("powersgd");
  const auto trained = train(job_of("ddp", GetParam(), &layer), 12, 0.25);
  const Values wanted = train_reference(GetParam(), 12, 0.25);
  ASSERT_GT(distance(wanted, Values(wanted.size(), 0.0)), 5.0);
  for (const Trained& one : trained) {
    EXPECT_LT(distance(one.weights, wanted), 1e-3);
    EXPECT_EQ(one.weights, trained[0].weights) << "ranks differ";
    for (const double bias : one.bias) EXPECT_NEAR(bias, -12 * 0.25 * (GetParam() + 1) / 2.0, 1e-5);
  }
}

TEST_P(PowerSgd, CountsARankWithoutDataAsTheReferenceDoes) {
  const Spec layer("powersgd");
  const auto trained = train(job_of("ddp", GetParam(), &layer), 12, 0.25, 5);
  const Values wanted = train_reference(GetParam(), 12, 0.25, 5);
  EXPECT_GT(distance(wanted, train_reference(GetParam(), 12, 0.25)), 1.0);
  for (const Trained& one : trained) EXPECT_LT(distance(one.weights, wanted), 1e-3);
}

TEST(PowerSgdOverDdp2, StepsAsTheReferenceDoes) {
  const Spec layer("powersgd");
  ToyJob job = job_of("ddp2", 2, &layer);
  job.collective = host::parse_spec("sim,over=shm,bandwidth=100Gbit,latency=1us", "test");
  job.num_nodes = 2;
  job.replicas = 2;
  const auto trained = train(job, 12, 0.25);
  for (const Trained& one : trained) EXPECT_LT(distance(one.weights, train_reference(2, 12, 0.25)), 1e-3);
}

/// Returns a wave of two directions that is far larger than the gradient and changes its sign in every step.
Values wave_at(int step) {
  std::mt19937 random(7);
  const auto sign = [&] { return random() % 2 == 0 ? 1.0 : -1.0; };
  Values wave(kRows * kColumns, 0.0), rows(kRows), columns(kColumns);
  for (int direction = 0; direction < 2; ++direction) {
    std::ranges::generate(rows, sign);
    std::ranges::generate(columns, sign);
    for (size_t i = 0; i < wave.size(); ++i) wave[i] += rows[i / kColumns] * columns[i % kColumns];
  }
  for (double& value : wave) value *= step % 2 == 0 ? 4.0 : -4.0;
  return wave;
}

/// Returns how far the weights still are from the target, as a share of the way.
double distance_left(const Spec& layer) {
  constexpr int kSteps = 400;
  const Values target = flat(random_matrix(1));
  double left = 0;
  run_ranks(job_of("ddp", 2, &layer), [&](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, 0.02);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int i = 0; i < kSteps; ++i) {
      Values seen = target;
      const Values wave = wave_at(i);
      for (size_t at = 0; at < seen.size(); ++at) seen[at] += wave[at];
      step(rank, engine, model, seen, 1);
    }
    if (rank.rank == 0) left = distance(model.weights(kMatrix), target) / distance(target, Values(target.size(), 0.0));
    rank.runtime.release_model(model);
  });
  return left;
}

// Two directions of a gradient are sent in a step: without errors these are the wave's for ever.
TEST(PowerSgdErrors, MakeItConverge) {
  EXPECT_LT(distance_left(Spec("powersgd")), 0.25);
  EXPECT_GT(distance_left(Spec("powersgd").set("error_feedback", "false")), 0.75);
}

TEST(PowerSgdBytes, AreThoseOfTheFactors) {
  const Spec layer("powersgd");
  const auto whole = train(job_of("ddp", 2, nullptr), 10, 0.1), factors = train(job_of("ddp", 2, &layer), 10, 0.1);
  const uint64_t numbers = (kRows + kColumns) * kRank + kBias;  // two ranks: a ring sends each number once
  EXPECT_EQ(whole[0].bytes_sent, 10 * sizeof(float) * (kRows * kColumns + kBias));
  EXPECT_EQ(factors[0].bytes_sent, 10 * sizeof(float) * numbers);
  EXPECT_LT(5 * factors[0].bytes_sent, whole[0].bytes_sent);
}

TEST(PowerSgdWarmUp, SendsGradientsWhole) {
  const Spec layer = Spec("powersgd").set("warmup_steps", 10);
  EXPECT_EQ(train(job_of("ddp", 2, &layer), 10, 0.1)[0].weights, train(job_of("ddp", 2, nullptr), 10, 0.1)[0].weights);
  EXPECT_NE(train(job_of("ddp", 2, &layer), 11, 0.1)[0].weights, train(job_of("ddp", 2, nullptr), 11, 0.1)[0].weights);
}

TEST(PowerSgdState, ComesBackBitByBit) {
  const Spec layer("powersgd");
  const std::vector<Matrix> seen = seen_targets(2);
  std::vector<host::StrategyState> saved(2);
  std::vector<ToyState> middle(2), uninterrupted(2), resumed(2);
  run_ranks(job_of("ddp", 2, &layer), [&](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, 0.25);
    host::StepEngine& engine = rank.runtime.configure(model);
    const auto own = static_cast<size_t>(rank.rank);
    for (int i = 0; i < 4; ++i) step(rank, engine, model, flat(seen[own]), 1);
    rank.runtime.pause(COHORT_PAUSE_CHECKPOINT);
    saved[own] = rank.runtime.save_state();
    middle[own] = model.state();
    for (int i = 0; i < 4; ++i) step(rank, engine, model, flat(seen[own]), 1);
    uninterrupted[own] = model.state();
    rank.runtime.release_model(model);
  });
  run_ranks(job_of("ddp", 2, &layer), [&](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, 0.25);
    const auto own = static_cast<size_t>(rank.rank);
    host::StepEngine& engine = rank.runtime.configure(model);
    model.set_state(middle[own]);
    rank.runtime.load_state(saved[own], 4);
    for (int i = 0; i < 4; ++i) step(rank, engine, model, flat(seen[own]), 1);
    resumed[own] = model.state();
    rank.runtime.release_model(model);
  });
  for (size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(resumed[rank].weights, uninterrupted[rank].weights);
}

TEST(PowerSgdSupports, CpusOverStrategiesThatAverage) {
  const cohort_component& component =
      test::component_of(test::open_plugin(COHORT_TEST_EXAMPLES "/cohort_powersgd.so"), COHORT_KIND_STRATEGY);
  const auto ask = [&](int32_t use, int64_t value, const char* below) {
    cohort_query query{};
    query.struct_size = sizeof query;
    query.use = use;
    query.value = value;
    query.variant = "";
    query.below_spec = below;
    component.supports(nullptr, &query);
    return query;
  };
  for (const char* below : {"ddp", "ddp,compression=fp16", "ddp2", "ddp_spawn"}) {
    EXPECT_NE(ask(COHORT_USE_BELOW, 0, below).answer, COHORT_ANSWER_NO) << below;
  }
  EXPECT_EQ(ask(COHORT_USE_DEVICE_TYPE, COHORT_DEVICE_CPU, "ddp").answer, COHORT_ANSWER_YES);
  EXPECT_EQ(ask(COHORT_USE_DEVICE_TYPE, COHORT_DEVICE_CUDA, "ddp").answer, COHORT_ANSWER_NO);
  EXPECT_EQ(ask(COHORT_USE_BELOW, 0, "bagua:qadam").answer, COHORT_ANSWER_NO);
  EXPECT_THAT(ask(COHORT_USE_BELOW, 0, "bagua:qadam").fix, StrEq("put it over ddp, ddp_spawn or ddp2"));
}

}  // namespace
}  // namespace cohort::toy
