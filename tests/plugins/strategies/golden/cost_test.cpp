// What each strategy asks of a collective, held against a table: communication and memory are guarded without a clock.
#include <array>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <sstream>

#include <gmock/gmock.h>

#include <cohort/toy_host/toy_host.hpp>

#include "counts.hpp"

namespace cohort::golden {
namespace {

constexpr const char* kUpdate = "COHORT_UPDATE_GOLDEN_TABLE";
constexpr const char* kHead =
    "# What each strategy asks of a collective. One model of 547 float32 weights in five parameters, buckets of 512 "
    "bytes\n"
    "# unless the strategy keeps one; ranks that ask for the same share a line. Written by golden_table_test, which "
    "compares:\n"
    "#   COHORT_UPDATE_GOLDEN_TABLE=1 build/release/tests/golden_table_test\n"
    "# writes it anew; a change of a line is a change of the product's cost and has its reason in the commit.\n"
    "#   ranks    4; 2x2: two nodes of two; 1*2: two replicas in one rank\n"
    "#   part     setup: until the model is configured; warm-up: the first three steps, with what is laid out again;\n"
    "#            step: each of the steps after them; end: the last pause, and all until the rank is gone\n"
    "#            (async: a round is made of one step and the pause)\n"
    "#   alloc    memory of the collective, and its bytes; free: how often some was given back\n"
    "#   waits    of the step thread for lane 0, and of any thread for the strategy's own lanes\n"
    "# Operations: how often, on what, and the bytes that the rank gives to them together.\n";

struct Case {
  const char* strategy;
  std::vector<int> worlds{2, 4};
  int nodes = 1;
  int replicas = 1;
  bool one_bucket = false;
  const char* optimizer = "sgd";
  bool ends_with_round = false;  ///< async: one step, which begins a round, and the end
};

const std::vector<int> kOne{1}, kFour{4};

std::vector<Case> all_cases() {
  return {
      {.strategy = "single", .worlds = kOne},
      {.strategy = "dp", .worlds = kOne, .replicas = 2},
      {.strategy = "ddp"},
      {.strategy = "ddp", .worlds = kOne},
      {.strategy = "ddp", .worlds = kFour, .nodes = 2},
      {.strategy = "ddp,compression=bf16"},
      {.strategy = "ddp_spawn"},
      {.strategy = "sharded"},
      {.strategy = "sharded", .worlds = kOne},
      {.strategy = "ddp2", .worlds = {2, 4}, .nodes = 2, .replicas = 2},
      {.strategy = "horovod"},
      {.strategy = "horovod,op=sum"},
      {.strategy = "horovod,op=adasum", .one_bucket = true},
      {.strategy = "horovod,compression=fp16"},
      {.strategy = "bagua:gradient_allreduce"},
      {.strategy = "bagua:gradient_allreduce,average=false"},
      {.strategy = "bagua:gradient_allreduce,hierarchical=true", .worlds = kFour, .nodes = 2},
      {.strategy = "bagua:bytegrad"},
      {.strategy = "bagua:bytegrad", .worlds = kOne},
      {.strategy = "bagua:bytegrad,hierarchical=true", .worlds = kFour, .nodes = 2},
      {.strategy = "bagua:decentralized", .one_bucket = true},
      {.strategy = "bagua:decentralized,hierarchical=true", .worlds = kFour, .nodes = 2, .one_bucket = true},
      {.strategy = "bagua:decentralized,peer_selection_mode=shift_one", .one_bucket = true},
      {.strategy = "bagua:low_precision_decentralized"},
      {.strategy = "bagua:low_precision_decentralized,hierarchical=true", .worlds = kFour, .nodes = 2},
      {.strategy = "bagua:qadam,warmup_steps=1000", .optimizer = "adam"},
      {.strategy = "bagua:qadam,warmup_steps=1", .optimizer = "adam"},
      {.strategy = "bagua:qadam,warmup_steps=1,hierarchical=true", .worlds = kFour, .nodes = 2, .optimizer = "adam"},
      {.strategy = "bagua:async,warmup_steps=1000"},
      {.strategy = "bagua:async,warmup_steps=1,sync_interval_ms=86400000", .one_bucket = true},
      {.strategy = "bagua:async,sync_interval_ms=1", .one_bucket = true, .ends_with_round = true},
  };
}

// ---- one part of one rank's life

struct Part {
  std::map<std::string, Cost> asked;
  uint64_t waits = 0, own_waits = 0;
  bool operator==(const Part&) const = default;
};
using Parts = std::vector<std::pair<std::string, Part>>;  // in order

class Ledger {
 public:
  Ledger(host::ConnectedRank& runtime, Counts& counts) : runtime_(runtime), counts_(counts) {}
  void close(const std::string& name) {
    Part part{counts_.take(), 0, 0};
    for (const auto& [lane, waits] : runtime_.lane_waits()) (lane == "default" ? part.waits : part.own_waits) += waits;
    const Part until_now{{}, part.waits, part.own_waits};
    part.waits -= before_.waits;
    part.own_waits -= before_.own_waits;
    before_ = until_now;
    parts.emplace_back(name, std::move(part));
  }
  Parts parts;

 private:
  host::ConnectedRank& runtime_;
  Counts& counts_;
  Part before_;
};

// ---- a job

constexpr int kWarmUp = 3, kSteps = 3;

std::vector<toy::ToyParameter> parameters() {
  return {{"a", 5}, {"large", 300}, {"frozen", 9, COHORT_FLOAT32, false}, {"b", 64}, {"c", 129}, {"d", 40}};
}

std::vector<std::vector<double>> gradients(int rank, int step, int replicas) {
  std::vector<std::vector<double>> gradients;
  for (int replica = 0; replica < replicas; ++replica) {
    for (const toy::ToyParameter& parameter : parameters()) {
      auto& values = gradients.emplace_back();
      for (uint64_t i = 0; parameter.requires_grad && i < parameter.numel; ++i) {
        values.push_back(0.125 * (rank + 1) - 0.25 * replica + static_cast<double>(i % 7) - step);
      }
    }
  }
  return gradients;
}

toy::ToyJob job_of(const Case& about, int world, host::PluginHost& plugins, CountedJob& counted) {
  toy::ToyJob job;
  job.plugin_host = &plugins;
  job.strategy = host::parse_spec(about.strategy, "--strategy");
  job.collective =
      host::parse_spec("counting,job=" + std::to_string(reinterpret_cast<uintptr_t>(&counted)), "--collective");
  job.world_size = world;
  job.num_nodes = about.nodes;
  job.replicas = about.replicas;
  job.inspects_layers = false;  // the table counts bytes
  if (!about.one_bucket) job.bucket_size = 512;
  return job;
}

// Without what the host tries by time between steps.
void measured_step(toy::ToyRank& rank, host::StepEngine& engine, toy::ToyModel& model,
                   const std::vector<std::vector<double>>& values) {
  engine.set_overlap(true);
  rank.backward(engine, model, values);
  for (uint32_t i = 0; i < model.parameters().size(); ++i) {
    if (rank.runtime.has_mean_gradient(i)) model.show_gradient(i);
  }
  engine.optimizer_step(0);
  for (uint32_t i = 0; i < model.parameters().size(); ++i) model.forget_gradient(i);
}

void train(const Case& about, toy::ToyRank& rank, Ledger& ledger) {
  toy::ToyOptimizer optimizer{.kind = about.optimizer, .learning_rate = 0.0625};
  if (optimizer.kind == "sgd") optimizer.momentum = 0.5;
  toy::ToyModel model(parameters(), 1.0, optimizer, static_cast<uint32_t>(about.replicas));
  host::StepEngine& engine = rank.runtime.configure(model);
  ledger.close("setup");
  int step = 0;
  const auto next = [&] { return gradients(rank.rank, step++, about.replicas); };
  if (about.ends_with_round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // until the first round is due
    measured_step(rank, engine, model, next());
    rank.runtime.pause(COHORT_PAUSE_END);
    ledger.close("round");
  } else {
    while (step < kWarmUp) rank.step(engine, model, next());
    ledger.close("warm-up");
    while (step < kWarmUp + kSteps) {
      measured_step(rank, engine, model, next());
      ledger.close("step " + std::to_string(step));
    }
    rank.runtime.pause(COHORT_PAUSE_END);
  }
  rank.runtime.release_model(model);
  ledger.close("end");
}

// Steps that cost the same become one.
Parts without_repetition(Parts parts) {
  const auto is_step = [](const auto& part) { return part.first.starts_with("step "); };
  const auto first = std::ranges::find_if(parts, is_step);
  const auto last = std::find_if_not(first, parts.end(), is_step);
  if (first == parts.end()) return parts;
  if (!std::all_of(first, last, [&](const auto& part) { return part.second == first->second; })) return parts;
  first->first = "step";
  parts.erase(first + 1, last);
  return parts;
}

std::vector<Parts> run(const Case& about, int world, host::PluginHost& plugins) {
  CountedJob counted(world);
  std::vector<Parts> by_rank(static_cast<size_t>(world));
  toy::run_ranks(job_of(about, world, plugins, counted), [&](toy::ToyRank& rank) {
    const auto index = static_cast<size_t>(rank.rank);
    Ledger ledger(rank.runtime, counted.ranks[index]);
    train(about, rank, ledger);
    by_rank[index] = without_repetition(std::move(ledger.parts));
  });
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    auto& end = by_rank[rank].back().second.asked;
    for (const auto& [what, cost] : counted.ranks[rank].take()) {  // of the shutdown and the destructors
      end[what].calls += cost.calls;
      end[what].nbytes += cost.nbytes;
    }
  }
  return by_rank;
}

// ---- the table

std::string operations_of(const Part& part) {
  std::string text;
  for (const auto& [what, cost] : part.asked) {
    if (what == "alloc" || what == "release") continue;
    text += (text.empty() ? "" : ", ") + std::to_string(cost.calls) + " " + what;
    if (cost.nbytes > 0) text += " " + std::to_string(cost.nbytes) + " B";
  }
  return text.empty() ? "-" : text;
}

std::string line_of(const std::array<std::string, 4>& about, const Part& part) {
  const auto cost = [&](const char* what) {
    const auto found = part.asked.find(what);
    return found == part.asked.end() ? Cost{} : found->second;
  };
  std::ostringstream line;
  line << std::left << std::setw(58) << about[0] << std::setw(6) << about[1] << std::setw(8) << about[2] << std::setw(5)
       << about[3] << std::right << std::setw(5) << cost("alloc").calls << std::setw(7) << cost("alloc").nbytes
       << std::setw(5) << cost("release").calls << std::setw(6) << part.waits << std::setw(4) << part.own_waits << "  "
       << operations_of(part);
  return line.str();
}

std::string headline() {
  return "strategy                                                  ranks part    rank alloc  bytes free waits own  "
         "operations";
}

std::string world_text(const Case& about, int world) {
  std::string text = std::to_string(world);
  if (about.nodes > 1) text = std::to_string(about.nodes) + "x" + std::to_string(world / about.nodes);
  if (about.replicas > 1) text += "*" + std::to_string(about.replicas);
  return text;
}

// Ranks that ask for the same share a line: "all", "1", "0,2".
std::vector<std::string> lines_of(const Case& about, int world, const std::vector<Parts>& by_rank) {
  std::vector<std::string> lines;
  for (size_t part = 0; part < by_rank[0].size(); ++part) {
    std::vector<std::pair<Part, std::string>> groups;  // in the order of their first ranks
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      const Part& own = by_rank[rank].at(part).second;
      const auto group = std::ranges::find(groups, own, [](const auto& one) { return one.first; });
      if (group == groups.end()) {
        groups.emplace_back(own, std::to_string(rank));
      } else {
        group->second += "," + std::to_string(rank);
      }
    }
    if (groups.size() == 1) groups[0].second = "all";
    for (const auto& [costs, ranks] : groups) {
      lines.push_back(line_of({about.strategy, world_text(about, world), by_rank[0][part].first, ranks}, costs));
    }
  }
  return lines;
}

std::vector<std::string> measured_table() {
  host::LogSettings settings;
  settings.level = host::LogLevel::kOff;
  host::Log log(settings);
  host::PluginSearch search;
  search.directories = {COHORT_TEST_PLUGIN_DIR, COHORT_COUNTING_PLUGIN_DIR};
  host::PluginHost plugins(search, log);
  std::vector<std::string> lines{headline()};
  for (const Case& about : all_cases()) {
    for (const int world : about.worlds) {
      for (std::string& line : lines_of(about, world, run(about, world, plugins))) lines.push_back(std::move(line));
    }
  }
  return lines;
}

std::vector<std::string> written_table() {
  std::ifstream file(COHORT_GOLDEN_TABLE);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("#")) lines.push_back(line);
  }
  return lines;
}

void write(const std::vector<std::string>& lines) {
  std::ofstream file(COHORT_GOLDEN_TABLE);
  file << kHead;
  for (const std::string& line : lines) file << line << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " COHORT_GOLDEN_TABLE);
}

// Lines begin with what they are about, so that none is there twice.
std::string difference(const std::vector<std::string>& written, const std::vector<std::string>& measured) {
  std::string text;
  const auto add_missing = [&](const char* mark, const auto& from, const auto& in) {
    for (const std::string& line : from) {
      if (std::ranges::find(in, line) == in.end()) text += mark + line + "\n";
    }
  };
  add_missing("- ", written, measured);
  add_missing("+ ", measured, written);
  return text;
}

TEST(StrategyCost, IsThatOfTheGoldenTable) {
  const std::vector<std::string> measured = measured_table();
  if (std::getenv(kUpdate)) return write(measured);
  const std::vector<std::string> written = written_table();
  EXPECT_TRUE(measured == written) << "- as written, + as it is now; " << kUpdate << "=1 writes it:\n"
                                   << difference(written, measured);
}

}  // namespace
}  // namespace cohort::golden
