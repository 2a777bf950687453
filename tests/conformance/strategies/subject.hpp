// What the command line says is to be tried: a strategy, and the numbers of ranks, nodes and replicas that it plans.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cohort/api/strategy.h>
#include <cohort/host/log.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>

namespace cohort::conformance {

/// A job that the strategy plans. Ranks are spread evenly over the nodes.
struct Shape {
  int ranks = 1;
  int nodes = 1;
  int replicas = 1;     ///< in each rank
  CollectiveSpec wire;  ///< name "" with one rank
};
/// "4ranks", "2ranks_3replicas".
std::string name_of(const Shape& shape);
void PrintTo(const Shape& shape, std::ostream* out);

struct Arguments {
  StrategySpec strategy;
  std::vector<Spec> layers;
  std::optional<CollectiveSpec> collective;
  std::vector<int> ranks{1, 2, 3, 4};
  std::vector<int> replicas{1, 2, 3};
  int nodes = 1;
  host::PluginSearch search;
  bool is_exact = false;            ///< ends where the mean gradient leads
  bool ranks_may_differ = false;    ///< between pauses
  std::string optimizer = "sgd";    ///< of the toy model: sgd, adam, adamw
  bool one_bucket = false;          ///< of any size: none is asked for
  bool results_vary = false;        ///< two runs may end differently
  bool unreached_may_move = false;  ///< what no rank's gradient reaches moves by roundings
  int patience = 1;                 ///< deadlines are that many times as long
};
/// Reads the arguments that are not GoogleTest's. Throws UserError.
Arguments arguments_from(int argc, char** argv);
extern const char* const kUsage;

class Subject {
 public:
  /// Opens the strategy and asks it for its plans. Throws UserError where it plans none of the shapes.
  explicit Subject(Arguments arguments);
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  const Arguments& given() const { return given_; }
  const std::vector<Shape>& shapes() const { return shapes_; }
  /// For all jobs, so that files are opened once. The main thread's.
  host::PluginHost& plugins() const { return *plugins_; }
  /// It plans nothing for a process that no launcher has started.
  bool is_driven() const { return is_driven_; }
  /// Throws what planning throws.
  cohort_plan plan_of(int devices, int nodes) const;

 private:
  Arguments given_;
  std::unique_ptr<host::Log> log_;
  std::unique_ptr<host::PluginHost> plugins_;
  std::vector<Shape> shapes_;
  bool is_driven_ = false;

  bool plans_one_rank() const;
  std::optional<Shape> shape_of(int ranks, int replicas, std::string& refusal) const;
  CollectiveSpec wire_of(const cohort_plan& plan, int ranks, int nodes) const;
};
/// Of this run of the program.
const Subject& subject();

}  // namespace cohort::conformance
