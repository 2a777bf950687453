// What the files of the strategy suite share: jobs on the toy host, and a rank that trains.
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cohort/toy_host/toy_host.hpp>

#include "net.hpp"
#include "ranks.hpp"
#include "reference.hpp"
#include "subject.hpp"

namespace cohort::conformance {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

/// In bodies of ranks, where GoogleTest's own assertions cannot end the rank.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}
/// Throws where `difference` says something.
inline void require_none(const std::string& difference, const std::string& when) {
  require(difference.empty(), when + ": " + difference);
}

/// One rank with a model of its own that the strategy has configured; the destructor releases the model.
class Trainee {
 public:
  Trainee(toy::ToyRank& rank, const Net& net, const Shape& shape);
  ~Trainee();
  Trainee(const Trainee&) = delete;
  Trainee& operator=(const Trainee&) = delete;

  int rank() const { return rank_.rank; }
  host::ConnectedRank& runtime() { return rank_.runtime; }
  host::StepEngine& engine() { return engine_; }
  toy::ToyModel& model() { return model_; }
  Weights weights() const { return model_.state().weights; }

  /// A micro-batch: this rank's gradients of parameters of the phase.
  void backward(const Backward& backward, const Turn& turn, bool last = true, uint32_t phase = 0);
  void update(uint32_t phase = 0) { rank_.update(engine_, model_, phase); }
  /// Limits the gradients of all later updates.
  void limit(const toy::ToyRank::Clip& clip) { rank_.clip = clip; }
  /// The norm that the last limited gradients had before.
  double norm() const { return rank_.norm; }
  /// An optimizer step with one micro-batch.
  Votes step(const Backward& backward, int index, uint32_t phase = 0);
  void steps(const Backward& backward, int begin, int end);
  /// pause and resume.
  void rest(int32_t reason);
  /// The weights after the end of training.
  Weights finish();

 private:
  const Net& net_;
  toy::ToyRank& rank_;
  toy::ToyModel model_;
  host::StepEngine& engine_;
};

toy::ToyJob job_of(const Shape& shape, std::optional<uint64_t> bucket_size = std::nullopt,
                   std::chrono::milliseconds timeout = 60s);

/// Runs `body` on ranks that are threads; rethrows the first rank's exception.
void on_ranks(const Shape& shape, const Net& net, const std::function<void(Trainee&)>& body);
/// Each rank's weights, as `body` gives them.
std::vector<Weights> weights_of(const Shape& shape, const Net& net, const std::function<Weights(Trainee&)>& body);
/// Each rank's weights after the end of these steps.
std::vector<Weights> trained(const Shape& shape, const Net& net, const Backward& backward, int steps);
/// Each rank's exception, "" where it had none.
std::vector<std::string> failures_of(const toy::ToyJob& job, const std::function<void(toy::ToyRank&)>& body);
/// The same with ranks that are processes. Only in suites named ...DeathTest, which run before any other.
std::vector<test::RankEnd> on_processes(const Shape& shape, const Net& net, const std::function<void(Trainee&)>& body,
                                        std::chrono::milliseconds timeout = 60s);

/// All ranks have the same bits.
void expect_equal(const Net& net, const std::vector<Weights>& by_rank);

/// Instantiated for shapes.
class OnShapes : public testing::TestWithParam<Shape> {
 protected:
  const Shape& shape() const { return GetParam(); }
};

std::vector<Shape> all_shapes();
std::vector<Shape> shapes_of_one_rank();
std::vector<Shape> shapes_of_several_ranks();
std::vector<Shape> shapes_with_replicas();
/// The one with most ranks, if there are several.
std::vector<Shape> largest_shape();

}  // namespace cohort::conformance

#define COHORT_ON_SHAPES(Suite, shapes)                 \
  class Suite : public OnShapes {};                     \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Suite); \
  INSTANTIATE_TEST_SUITE_P(Shapes, Suite, testing::ValuesIn(shapes), [](const auto& s) { return name_of(s.param); })

#define COHORT_NEEDS_EQUAL_RESULTS() \
  if (subject().given().results_vary) GTEST_SKIP() << "two runs may end differently (--results-vary)"
#define COHORT_NEEDS_UNREACHED_WEIGHTS_AT_REST() \
  if (subject().given().unreached_may_move) GTEST_SKIP() << "roundings may move them (--unreached-weights-may-move)"
#define COHORT_NEEDS_SGD() \
  if (subject().given().optimizer != "sgd") GTEST_SKIP() << "the reference is for SGD (--optimizer)"
#define COHORT_NEEDS_EXACTNESS()                                                \
  if (!subject().given().is_exact)                                              \
  GTEST_SKIP() << "it may step with something else than the mean gradient (no " \
                  "--exact)"
