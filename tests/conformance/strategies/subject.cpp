#include "subject.hpp"

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string_view>

#include <cohort/host/connected_rank.hpp>
#include <cohort/host/error.hpp>

#include "../open_after_trial.hpp"

namespace cohort::conformance {

const char* const kUsage =
    "usage: strategy_suite --strategy=SPEC [options] [--gtest_filter=PATTERN ...]\n"
    "\n"
    "Checks that a strategy does what cohort/api/strategy.h promises. Ranks are threads, and processes where they are\n"
    "killed. Exit code 0: everything that was tried is as promised; lines of skipped tests say why they are.\n"
    "\n"
    "  --strategy=SPEC       as for every program: ddp | ddp,compression=bf16\n"
    "  --layer=SPEC          a layer on top of it; repeatable\n"
    "  --collective=SPEC     the wire (default: the strategy's first choice on one node, sim across nodes)\n"
    "  --ranks=N[,N...]      numbers of ranks to try (default: 1,2,3,4, those that the strategy plans)\n"
    "  --replicas=K[,K...]   replicas in each rank (default: 1,2,3, those that the strategy plans)\n"
    "  --nodes=N             ranks live on N nodes (default: 1, or as many as ranks where the strategy plans it so)\n"
    "  --plugin=FILE         a plugin file; repeatable\n"
    "  --plugin-dir=DIR      a folder with plugins; repeatable\n"
    "  --exact               it steps with the mean over ranks of the sum over replicas of gradients, nothing less\n"
    "  --weights-may-differ-between-pauses\n"
    "                        ranks have to be equal after the end of training only\n"
    "  --unreached-weights-may-move\n"
    "                        weights that no rank's gradient reaches may move by roundings\n"
    "  --one-bucket          it keeps the model in one bucket, and refuses sizes that cannot hold it\n"
    "  --optimizer=KIND      what models are trained with: sgd (default), adam, adamw\n"
    "  --results-vary        two runs may end differently: tests that compare runs are skipped\n"
    "  --patience=N          deadlines are N times as long, for a slow build or machine\n";

namespace {

constexpr const char* kWireAcrossNodes = "sim,over=shm,bandwidth=100Gbit,latency=1us";

// The value of --NAME=VALUE; nothing for another argument.
std::optional<std::string> value_of(std::string_view argument, std::string_view name) {
  const std::string flag = "--" + std::string(name) + "=";
  if (argument.substr(0, flag.size()) != flag) return std::nullopt;
  return std::string(argument.substr(flag.size()));
}

std::vector<int> numbers_in(const std::string& text, const std::string& name) {
  std::vector<int> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(std::atoi(text.substr(begin, end - begin).c_str()));
    if (numbers.back() < 1) throw UserError("--" + name + ": give numbers above 0, as in 1,2,4");
    begin = end + 1;
  }
  return numbers;
}

int number_in(const std::string& text, const std::string& name) {
  const std::vector<int> numbers = numbers_in(text, name);
  if (numbers.size() != 1) throw UserError("--" + name + ": give one number");
  return numbers[0];
}

bool read_switch(Arguments& arguments, std::string_view argument) {
  if (argument == "--exact") return arguments.is_exact = true;
  if (argument == "--weights-may-differ-between-pauses") return arguments.ranks_may_differ = true;
  if (argument == "--unreached-weights-may-move") return arguments.unreached_may_move = true;
  if (argument == "--one-bucket") return arguments.one_bucket = true;
  if (argument == "--results-vary") return arguments.results_vary = true;
  return false;
}

void read_argument(Arguments& arguments, std::vector<std::filesystem::path>& folders, std::string_view argument) {
  if (read_switch(arguments, argument)) return;
  if (const auto spec = value_of(argument, "strategy")) {
    arguments.strategy = host::parse_spec(*spec, "--strategy");
  } else if (const auto layer = value_of(argument, "layer")) {
    arguments.layers.push_back(host::parse_spec(*layer, "--layer"));
  } else if (const auto wire = value_of(argument, "collective")) {
    arguments.collective = host::parse_spec(*wire, "--collective");
  } else if (const auto ranks = value_of(argument, "ranks")) {
    arguments.ranks = numbers_in(*ranks, "ranks");
  } else if (const auto replicas = value_of(argument, "replicas")) {
    arguments.replicas = numbers_in(*replicas, "replicas");
  } else if (const auto nodes = value_of(argument, "nodes")) {
    arguments.nodes = number_in(*nodes, "nodes");
  } else if (const auto optimizer = value_of(argument, "optimizer")) {
    arguments.optimizer = *optimizer;
  } else if (const auto patience = value_of(argument, "patience")) {
    arguments.patience = number_in(*patience, "patience");
  } else if (const auto file = value_of(argument, "plugin")) {
    arguments.search.files.push_back(std::filesystem::absolute(*file));
  } else if (const auto folder = value_of(argument, "plugin-dir")) {
    folders.push_back(std::filesystem::absolute(*folder));
  } else {
    throw UserError("unknown argument '" + std::string(argument) + "'\n" + kUsage);
  }
}

host::LogSettings quiet() {
  host::LogSettings settings;
  settings.level = host::LogLevel::kWarning;
  return settings;
}

}  // namespace

std::string name_of(const Shape& shape) {
  std::string name = std::to_string(shape.ranks) + (shape.ranks == 1 ? "rank" : "ranks");
  if (shape.replicas > 1) name += "_" + std::to_string(shape.replicas) + "replicas";
  return name;
}

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << name_of(shape) << " on " << shape.nodes << (shape.nodes == 1 ? " node" : " nodes");
  if (shape.ranks > 1) *out << " over " << host::to_string(shape.wire);
}

Arguments arguments_from(int argc, char** argv) {
  Arguments arguments;
  std::vector<std::filesystem::path> folders;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, 8) != "--gtest_") read_argument(arguments, folders, argument);
  }
  if (arguments.strategy.name.empty()) throw UserError(kUsage);
  arguments.search.directories = host::default_directories(folders, "", "");
  return arguments;
}

Subject::Subject(Arguments arguments)
    : given_(std::move(arguments)),
      log_(std::make_unique<host::Log>(quiet())),
      plugins_(std::make_unique<host::PluginHost>(given_.search, *log_)) {
  open_after_trial(*plugins_, *log_, host::Kind::kStrategy, given_.strategy.name);
  is_driven_ = !plans_one_rank();
  std::string refusal = "these numbers do not go together";
  for (const int replicas : given_.replicas) {
    for (const int ranks : given_.ranks) {
      if (auto shape = shape_of(ranks, replicas, refusal)) shapes_.push_back(*std::move(shape));
    }
  }
  if (shapes_.empty()) throw UserError("the strategy plans nothing for these --ranks and --replicas: " + refusal);
}

bool Subject::plans_one_rank() const {
  try {
    plan_of(1, 1);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

cohort_plan Subject::plan_of(int devices, int nodes) const {
  cohort_job job{};
  job.struct_size = sizeof job;
  job.device_type = COHORT_DEVICE_CPU;
  job.num_devices = devices;
  job.num_nodes = nodes;
  if (is_driven_) job.external_world_size = devices * nodes;
  return host::plan_of(*plugins_, given_.strategy, given_.layers, job, *log_);
}

// Several processes on each node, or else one; kept where the strategy plans it just so.
std::optional<Shape> Subject::shape_of(int ranks, int replicas, std::string& refusal) const {
  for (const int nodes : {given_.nodes, ranks}) {
    if (ranks % nodes != 0) continue;
    try {
      const cohort_plan plan = plan_of(ranks / nodes * replicas, nodes);
      if (plan.processes_per_node * nodes != ranks || plan.replicas_per_process != replicas) continue;
      return Shape{ranks, nodes, replicas, wire_of(plan, ranks, nodes)};
    } catch (const UserError& refused) {
      refusal = refused.what();
    }
  }
  return std::nullopt;
}

CollectiveSpec Subject::wire_of(const cohort_plan& plan, int ranks, int nodes) const {
  if (ranks == 1) return {};
  if (given_.collective) return *given_.collective;
  if (nodes > 1) return host::parse_spec(kWireAcrossNodes, "--collective");
  const std::string_view all = plan.collectives ? plan.collectives : "";
  const std::string first(all.substr(0, all.find(',')));
  if (first.empty()) throw UserError("the strategy's plan names no collective; give one with --collective=NAME");
  return CollectiveSpec(first);
}

}  // namespace cohort::conformance
