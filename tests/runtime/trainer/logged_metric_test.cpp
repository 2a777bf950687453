// Metric objects that a module logs: passes, ranks, replicas, and what is refused.
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/metric_kinds.hpp>
#include <cohort/module.hpp>
#include <cohort/trainer.hpp>

#include "error_text.hpp"
#include "fake_runtime.hpp"
#include "metrics/packed_states.hpp"
#include "metrics/rank_report.hpp"

namespace cohort::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

/// Predicts the double of its input, which is the target: the errors are the numbers themselves.
struct Doubler final : ModuleFor<Doubler> {
  Doubler() : w(register_parameter("w", torch::zeros({}))) {}

  Output training_step(const Batch& batch, int64_t) override {
    measure(error_, batch);
    log("train_error", error_);
    return w * batch.tensor().mean();
  }
  void validation_step(const Batch& batch, int64_t index) override {
    if (in_validation) return in_validation(*this, batch, index);
    measure(error_, batch);
    log("val_error", error_);
  }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.0); }
  void on_train_epoch_end(int64_t) override {
    if (at_epoch_end) at_epoch_end(*this);
  }
  std::shared_ptr<Doubler> make() const override {
    auto made = std::make_shared<Doubler>();
    made->in_validation = in_validation;
    return made;
  }
  static void measure(Metric& metric, const Batch& batch) { metric.update(2 * batch.tensor(), batch.tensor()); }

  at::Tensor w;
  metric::MeanSquaredError error_, other_;
  metric::Recall recall_{metric::Multiclass{.num_classes = 3, .average = metric::Average::kNone}};
  MetricCollection both_{{"mse", metric::MeanSquaredError()}, {"mae", metric::MeanAbsoluteError()}};
  std::function<void(Doubler&, const Batch&, int64_t)> in_validation;
  std::function<void(Doubler&)> at_epoch_end;
};

/// 0, 1, 2, ... in batches of which the last is smaller.
struct UnevenNumbers final : DataModule {
  Loader train() override { return {.dataset = numbers(7), .batch_size = 4}; }
  Loader validation() override { return {.dataset = numbers(samples), .batch_size = 3}; }
  static std::shared_ptr<Dataset> numbers(int64_t count) {
    return std::make_shared<TensorDataset>(std::vector{torch::arange(count).to(torch::kFloat)});
  }
  int64_t samples = 5;
};

double mean_square(int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(i * i);
  return sum / static_cast<double>(count);
}

struct Fixture {
  ScriptedRun run;
  Doubler net;
  UnevenNumbers data;
  RunRecord record;

  explicit Fixture(const std::function<void(Script&)>& set = [](Script&) {}) : run(set) {}
  Trainer trainer() { return Trainer(run.runtime(), record, {.max_epochs = 2}); }
  Metrics validate() { return trainer().validate(net, data); }
  Metrics fit() { return trainer().fit(net, data); }
  std::string refusal() {
    return error_text<Error>([&] { validate(); });
  }
};

TEST(LoggedMetric, IsComputedOnceAndBeginsTheNextPassAfresh) {
  Fixture f;
  for (int pass = 0; pass < 2; ++pass) EXPECT_THAT(f.validate(), ElementsAre(Pair("val_error", mean_square(5))));
  EXPECT_THAT(f.fit(), ElementsAre(Pair("train_error", mean_square(7)), Pair("val_error", mean_square(5))));
  EXPECT_THAT(error_text<UserError>([&] { f.net.error_.compute(); }), HasSubstr("before update"));
}

TEST(LoggedMetric, IsNotChangedByAValidationWithTheSameObject) {
  Fixture f([](Script& s) { s.options.val_check_interval = BatchLimit{.count = 1, .fraction = {}}; });
  EXPECT_EQ(f.fit().at("train_error"), mean_square(7));
}

TEST(LoggedMetric, ThatFailedInABatchBeginsTheNextPassAfresh) {
  Fixture f;
  f.net.in_validation = [](Doubler& net, const Batch& batch, int64_t index) {
    Doubler::measure(net.error_, batch);
    net.log("val_error", net.error_);
    if (index == 1) throw UserError("no");
  };
  EXPECT_THAT(f.refusal(), HasSubstr("no"));
  f.net.in_validation = {};
  EXPECT_EQ(f.validate().at("val_error"), mean_square(5));
}

TEST(LoggedMetric, OfSeveralElementsHasANameForEach) {
  Fixture f;
  f.net.in_validation = [](Doubler& net, const Batch& batch, int64_t) {
    const at::Tensor targets = batch.tensor().to(torch::kLong) % 3;
    net.recall_.update(torch::zeros_like(targets), targets);
    net.log("recall", net.recall_);
  };
  EXPECT_THAT(f.validate(), ElementsAre(Pair("recall_0", 1), Pair("recall_1", 0), Pair("recall_2", 0)));
}

TEST(LoggedMetric, OfACollectionHasThePrefix) {
  Fixture f;
  f.net.in_validation = [](Doubler& net, const Batch& batch, int64_t) {
    net.both_.update(2 * batch.tensor(), batch.tensor());
    net.log("val_", net.both_);
    net.log({{"one", 1.0}, {"two", 2.0}});
  };
  EXPECT_THAT(f.validate(),
              ElementsAre(Pair("one", 1), Pair("two", 2), Pair("val_mae", 2), Pair("val_mse", mean_square(5))));
}

TEST(LoggedMetric, OfAListHasANameOfItsOwn) {
  Fixture f;
  f.net.in_validation = [](Doubler& net, const Batch&, int64_t) {
    net.log({{"one", 1.0}, {"two", 2.0}, {"one", 3.0}});
  };
  EXPECT_THAT(error_text<UserError>([&] { f.validate(); }), HasSubstr("log was given two values called 'one'"));
}

TEST(LoggedMetric, IsThatOfAllReplicas) {
  for (const bool deterministic : {false, true}) {
    Fixture f([&](Script& s) {
      s.selection.strategy = StrategySpec("dp");
      s.selection.replicas = 3;
      s.options.deterministic = deterministic;
      s.options.val_check_interval = BatchLimit{.count = 1, .fraction = {}};
    });
    EXPECT_THAT(f.fit(), ElementsAre(Pair("train_error", mean_square(7)), Pair("val_error", mean_square(5))));
  }
}

/// Returns the report of another rank, about a sum of squares and its elements.
std::string report_of(double sum, int64_t elements) {
  return to_text({.states = packed_states({{"val_error/sum", torch::tensor(sum, torch::kDouble)},
                                           {"val_error/elements", torch::tensor(elements)}})});
}

TEST(LoggedMetric, IsThatOfAllRanks) {
  int gathered = 0;
  Fixture f([&](Script& s) {
    s.topology.world_size = 2;
    s.all_gather = [&](std::string own) {
      if (own.empty()) return std::vector<std::string>{"", ""};  // nobody has failed
      return std::vector{std::move(own), gathered++ == 0 ? report_of(100, 2) : to_text({})};
    };
  });
  const double own = 0 + 4 + 16;  // every second number
  EXPECT_THAT(f.validate(), ElementsAre(Pair("val_error", (own + 100) / (3 + 2))));
}

TEST(LoggedMetric, OfABatchThatOnlyAnotherRankHasComesFromThere) {
  int gathered = 0;
  Fixture f([&](Script& s) {
    s.topology.world_size = 2;
    s.topology.rank = 1;
    s.all_gather = [&](std::string own) {
      if (own.empty()) return std::vector<std::string>{"", ""};
      return std::vector{gathered++ == 0 ? report_of(100, 2) : to_text({.totals = {{"val_error", 50, 1}}}),
                         std::move(own)};
    };
  });
  f.data.samples = 1;
  EXPECT_THAT(f.validate(), ElementsAre(Pair("val_error", 50)));
}

TEST(LoggedMetric, CountsNothingWhereNothingIsReported) {
  for (const int replicas : {1, 2}) {
    Fixture f([&](Script& s) {
      s.options.barebones = true;
      s.selection.strategy = StrategySpec("dp");
      s.selection.replicas = replicas;
    });
    f.fit();
    EXPECT_THAT(error_text<UserError>([&] { f.net.error_.compute(); }), HasSubstr("before update"))
        << "it would grow for ever";
  }
}

TEST(LoggedMetric, WithoutAnUpdateIsRefused) {
  Fixture f;
  f.net.in_validation = [](Doubler& net, const Batch&, int64_t) { net.log("val_error", net.error_); };
  EXPECT_EQ(
      f.refusal(),
      "metric 'val_error': cohort::metric::MeanSquaredError: compute was called before update; update the metric with "
      "a batch at least");
}

TEST(LoggedMetric, UnderTheNameOfAValueIsRefused) {
  Fixture f;
  f.net.in_validation = [](Doubler& net, const Batch& batch, int64_t) {
    Doubler::measure(net.error_, batch);
    net.log("error", 1.0);
    net.log("error", net.error_);
  };
  EXPECT_THAT(f.refusal(),
              HasSubstr("validation_step, batch 0, rank 0: log(\"error\") was given both a value and a metric; log "
                        "one of them under another name"));
  f.net.in_validation = [](Doubler& net, const Batch& batch, int64_t) {
    Doubler::measure(net.error_, batch);
    net.log("error", net.error_);
    net.log("error", 1.0);
  };
  EXPECT_THAT(f.refusal(), HasSubstr("both a value and a metric"));
  f.net.in_validation = [](Doubler& net, const Batch& batch, int64_t) {
    const at::Tensor targets = batch.tensor().to(torch::kLong) % 3;
    net.recall_.update(targets, targets);
    net.log("recall", net.recall_);
    net.log("recall_1", 1.0);
  };
  EXPECT_THAT(f.refusal(), HasSubstr("log(\"recall_1\") was given a value, and an element of a metric has this name"));
}

TEST(LoggedMetric, OfTwoNamesOrTwoObjectsOfOneNameAreRefused) {
  Fixture f;
  f.net.in_validation = [](Doubler& net, const Batch&, int64_t) {
    net.log("one", net.error_);
    net.log("two", net.error_);
  };
  EXPECT_THAT(f.refusal(), HasSubstr("log(\"two\") was given the metric that is logged as \"one\""));
  f.net.in_validation = [](Doubler& net, const Batch&, int64_t) {
    net.log("one", net.error_);
    net.log("one", net.other_);
  };
  EXPECT_THAT(f.refusal(), HasSubstr("log(\"one\") was given two metrics in one pass"));
  f.net.in_validation = [](Doubler& net, const Batch&, int64_t) { net.log("a,b", net.error_); };
  EXPECT_THAT(f.refusal(), HasSubstr("cannot head a column"));
}

TEST(LoggedMetric, ThatIsGoneBeforeTheEndIsRefused) {
  Fixture f;
  int64_t first = 0;
  f.net.in_validation = [&](Doubler& net, const Batch& batch, int64_t index) {
    metric::MeanSquaredError local;
    Doubler::measure(local, batch);
    if (index >= first) net.log("local", local);
  };
  EXPECT_THAT(f.refusal(), HasSubstr("validation_step, batch 1"));
  first = 1;  // the last batch
  EXPECT_THAT(f.refusal(),
              HasSubstr("log(\"local\") was given a metric that was destroyed before the pass has ended; make it a "
                        "member of the module"));
}

TEST(LoggedMetric, AtTheEndOfAnEpochIsRefused) {
  Fixture f;
  f.net.at_epoch_end = [](Doubler& net) { net.log("late", net.other_); };
  EXPECT_THAT(error_text<UserError>([&] { f.fit(); }), HasSubstr("log it in the step that updates it"));
}

}  // namespace
}  // namespace cohort::testing
