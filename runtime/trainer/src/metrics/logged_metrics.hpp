// The metric objects that a module logs during one pass, by name.
//
// Borrows the objects: one that is gone when it is needed is an error of the user. Belongs to a MetricBoard. States are
// named NAME/STATE here.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/metric.hpp>
#include <cohort/metrics.hpp>
#include <cohort/safetensors.hpp>

namespace cohort {

/// The states of a rank's metrics, and the names of those whose object this rank has not met: what a checkpoint left.
struct StatesOfRank {
  NamedTensors states;
  std::vector<std::string> not_logged{};
};

class LoggedMetrics {
 public:
  /// Keeps the states of metric objects from before their first change, of logged ones and of others. Any thread.
  class Journal {
   public:
    /// Lets the journal note changes by this thread, as long as it lives. Watches nest. A null journal notes nothing.
    class Watch {
     public:
      explicit Watch(const Journal* journal);
      ~Watch();
      Watch(const Watch&) = delete;
      Watch& operator=(const Watch&) = delete;

     private:
      friend class Journal;
      const Journal* const journal_;
      const Watch* const before_;
    };
    /// Call it before a metric changes.
    static void note(Metric& metric);
    void clear() { before_.clear(); }
    /// Returns all metrics that were changed since clear() to what they held.
    void restore() const;

   private:
    struct Held {
      std::weak_ptr<Metric> metric;
      Metric::Moment moment;
    };
    void note_first(Metric& metric) const;
    mutable std::mutex mutex_;
    mutable std::map<const Metric*, Held> before_;
  };

  /// Remembers an object that counts for the pass. One that a checkpoint has left a state for takes it now. Throws
  /// UserError if the name has another object, or the object another name.
  void add(std::string_view name, Metric& metric);
  /// Takes the states of the metrics that a replica has logged into the first object of each name, which is remembered.
  void add_taken(const LoggedMetrics& replica);
  bool contains(std::string_view name) const;
  std::vector<std::string> names() const;

  /// Returns what was added to all states, also to those that a checkpoint has left.
  NamedTensors states() const;
  /// Keeps states until their metrics are logged, and values that hold until then.
  void restore(const NamedTensors& states, Metrics values);
  /// Takes the states away, and gives them back: other data is measured in between, maybe with the same objects.
  NamedTensors take();
  void give_back(const NamedTensors& taken);

  /// Computes the values of the metrics that this rank is the first to have an object and a state of, given the states
  /// of each rank. Throws UserError with the name of the metric, also if no rank has updated it.
  Metrics values(const std::vector<StatesOfRank>& ranks, size_t own_rank) const;
  /// Returns the values of a checkpoint that no batch has made old since.
  const Metrics& restored_values() const { return restored_values_; }
  /// Returns the names whose metric was not logged since their states were restored.
  std::vector<std::string> not_logged() const;
  void forget();
  /// Resets the metrics, and forgets them.
  void reset();

 private:
  struct Entry {
    std::string name;
    std::weak_ptr<Metric> metric;
    NamedTensors restored;  // until the metric is logged
    bool is_logged = false;
  };
  Entry& entry(std::string_view name);
  static std::shared_ptr<Metric> object_of(const Entry& entry);

  std::vector<Entry> entries_;
  Metrics restored_values_;
};

}  // namespace cohort
