// Metrics that are no mean over batches: their value is computed from everything that a pass has seen, on all ranks.
//
//   struct Net : cohort::ModuleFor<Net> {
//     void validation_step(const cohort::Batch& batch, int64_t) override {
//       accuracy_.update(forward(batch[0]), batch[1]);
//       log("val_acc", accuracy_);
//     }
//     cohort::metric::Accuracy accuracy_{cohort::metric::Multiclass{.num_classes = 10}};
//   };
//
// A metric is a member of the module, and each clone of the module has its own. One thread at a time. Those that come
// with cohort are in metric_kinds.hpp.
#pragma once

#include <concepts>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/safetensors.hpp>

namespace cohort {

class LoggedMetrics;
class Runtime;

/// How a state grows with each batch, and how those of several ranks become one.
enum class Reduce { kSum, kConcatenate };

/// One of the user's own declares its states in the constructor, and overrides update and compute:
///
///   struct Hits final : cohort::Metric {
///     Hits() { add_state("hits", torch::zeros({}, torch::kLong), cohort::Reduce::kSum); }
///     void update(const at::Tensor& predictions, const at::Tensor& targets) override {
///       add("hits", predictions.eq(targets).sum());
///     }
///     at::Tensor compute() const override { return state("hits"); }
///   };
class Metric {
 public:
  virtual ~Metric() = default;
  Metric(Metric&& other) noexcept;
  Metric& operator=(Metric&&) = delete;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  /// Adds a batch. Throws UserError for tensors that do not fit.
  virtual void update(const at::Tensor& predictions, const at::Tensor& targets) = 0;
  /// Returns the value over all batches since the last reset, on the CPU. Throws UserError before the first update.
  virtual at::Tensor compute() const = 0;
  void reset();
  /// Returns the value over the batches of all ranks, for a loop of the user's own. Resets nothing. Collective.
  at::Tensor compute_over_ranks(Runtime& runtime);
  /// Throws UserError with the problem behind the name of the class.
  [[noreturn]] void refuse(const std::string& problem) const;

 protected:
  Metric() = default;
  /// Declares a state, in the constructor. A sum begins with `initial`, has its type, and counts it once however many
  /// ranks there are.
  void add_state(std::string name, at::Tensor initial, Reduce reduce);
  /// Adds to a sum, or puts behind the rows that a concatenation has. The value may lie on any device.
  void add(std::string_view name, const at::Tensor& value);
  /// Returns a state on the CPU. Throws UserError if nothing was added to any since the last reset.
  at::Tensor state(std::string_view name) const;

 private:
  friend class LoggedMetrics;
  struct State {
    std::string name;
    at::Tensor initial;
    Reduce reduce;
    std::vector<at::Tensor> parts;  // of a sum one at most
    at::Tensor whole() const;       // of what was added
  };
  State& find(std::string_view name);
  const State& find(std::string_view name) const;
  /// Return what was added since the last reset, by the names of the states; take() resets as well.
  NamedTensors added() const;
  NamedTensors take();
  /// Adds what added() has returned; behind a point a name may say which of several parts of the state it is.
  void absorb(const NamedTensors& added);
  /// Computes from what each rank has added; keeps its own.
  at::Tensor compute_from(std::span<const NamedTensors> ranks);
  /// A copy of the lists of all states, which shares the tensors.
  struct Moment {
    std::vector<std::vector<at::Tensor>> parts;
    bool is_updated;
  };
  Moment moment() const;
  void return_to(const Moment& moment);
  /// Returns a pointer that expires with the metric.
  std::weak_ptr<Metric> watched();

  std::vector<State> states_;
  bool is_updated_ = false;
  std::shared_ptr<Metric> self_;  // owns nothing; null until watched
};

/// Metrics that are updated together, each with a name.
class MetricCollection {
 public:
  struct Entry {
    std::string name;
    std::shared_ptr<Metric> metric;

    Entry(std::string its_name, std::shared_ptr<Metric> its_metric)
        : name(std::move(its_name)), metric(std::move(its_metric)) {}
    template <std::derived_from<Metric> Kind>
    Entry(std::string its_name, Kind its_metric)
        : Entry(std::move(its_name), std::make_shared<Kind>(std::move(its_metric))) {}
  };

  /// Throws UserError for two metrics of one name.
  MetricCollection(std::initializer_list<Entry> metrics);
  MetricCollection(MetricCollection&&) = default;
  MetricCollection& operator=(MetricCollection&&) = delete;
  MetricCollection(const MetricCollection&) = delete;
  MetricCollection& operator=(const MetricCollection&) = delete;
  ~MetricCollection() = default;

  /// See Metric; all of them.
  void update(const at::Tensor& predictions, const at::Tensor& targets);
  std::map<std::string, at::Tensor> compute() const;
  std::map<std::string, at::Tensor> compute_over_ranks(Runtime& runtime);
  void reset();

  std::span<const Entry> metrics() const { return metrics_; }

 private:
  std::vector<Entry> metrics_;
};

}  // namespace cohort
