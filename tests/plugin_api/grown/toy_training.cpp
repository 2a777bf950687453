// Trains a toy model twice with plugins, the second time from a checkpoint of the first, and prints for each rank what
// is left: a hash of weights and optimizer state, and the bytes that it has sent.
//
//   toy_training --strategy=SPEC --collective=SPEC [--layer=SPEC]... [--plugin=FILE]... [--plugin-dir=FOLDER]...
//                [--ranks=N] [--nodes=N] [--replicas=N] [--accelerator=NAME] [--optimizer=KIND] [--bucket-size=BYTES]
//                [--autotune=FILE]
//
// Without --bucket-size the model has several buckets; with 0 the strategy chooses.
#include <chrono>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <cohort/sdk/hash.hpp>
#include <cohort/toy_host/toy_host.hpp>

namespace {

using namespace cohort;

constexpr uint64_t kSaved = 3, kSteps = 6;
constexpr uint64_t kTunedSteps = 150;  // more than the trials take

struct Wishes {
  std::map<std::string, std::string> flags;
  toy::ToyJob job;

  int number(const std::string& flag, int otherwise) const {
    const auto found = flags.find(flag);
    return found == flags.end() ? otherwise : std::stoi(found->second);
  }
};

Wishes wishes_of(int count, char** words, host::PluginSearch& search) {
  Wishes wishes;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw std::runtime_error("not --flag=value: " + word);
    const std::string flag = word.substr(0, equals), value = word.substr(equals + 1);
    if (flag == "--layer") {
      wishes.job.layers.push_back(host::parse_spec(value, flag));
    } else if (flag == "--plugin") {
      search.files.emplace_back(value);
    } else if (flag == "--plugin-dir") {
      search.directories.emplace_back(value);
    } else {
      wishes.flags[flag] = value;
    }
  }
  toy::ToyJob& job = wishes.job;
  job.strategy = host::parse_spec(wishes.flags.at("--strategy"), "--strategy");
  job.collective = host::parse_spec(wishes.flags.at("--collective"), "--collective");
  job.world_size = wishes.number("--ranks", 2);
  job.num_nodes = wishes.number("--nodes", 1);
  job.replicas = wishes.number("--replicas", 1);
  job.timeout = std::chrono::minutes(2);  // only against a hang
  job.secret = host::Key{};               // some collectives want one
  if (wishes.flags.contains("--autotune")) job.autotune_file = wishes.flags.at("--autotune");
  if (wishes.flags.contains("--accelerator")) job.accelerator = wishes.flags.at("--accelerator");
  const auto bucket_size = static_cast<uint64_t>(wishes.number("--bucket-size", job.autotune_file ? 0 : 256));
  if (bucket_size > 0) job.bucket_size = bucket_size;
  return wishes;
}

std::vector<toy::ToyParameter> parameters() {
  return {{"a", 7}, {"frozen", 5, COHORT_FLOAT32, false}, {"wide", 33, COHORT_FLOAT64}, {"b", 64}, {"c", 129}};
}

std::vector<std::vector<double>> gradients(const toy::ToyRank& rank, uint64_t step, int micro, int replicas) {
  std::vector<std::vector<double>> all;
  for (int replica = 0; replica < replicas; ++replica) {
    for (const toy::ToyParameter& parameter : parameters()) {
      auto& values = all.emplace_back();
      for (uint64_t i = 0; parameter.requires_grad && i < parameter.numel; ++i) {
        const uint64_t mixed = (i + 1) * 2654435761u ^ (step * 40503u + static_cast<uint64_t>(rank.rank) * 977u +
                                                        static_cast<uint64_t>(micro) * 131u + all.size());
        values.push_back(static_cast<double>(mixed % 1021) / 512.0 - 1.0);
      }
    }
  }
  return all;
}

void train(const Wishes& wishes, toy::ToyRank& rank, toy::ToyModel& model, host::StepEngine& engine, uint64_t from,
           uint64_t to) {
  rank.clip = toy::ToyRank::Clip{.by = COHORT_CLIP_NORM, .limit = 8};
  for (uint64_t step = from; step < to; ++step) {
    const bool is_split = step % 2 == 1;  // into two micro-batches
    if (is_split) rank.backward(engine, model, gradients(rank, step, 1, wishes.job.replicas), /*last=*/false);
    rank.backward(engine, model, gradients(rank, step, 0, wishes.job.replicas));
    rank.update(engine, model);
  }
}

toy::ToyModel model_of(const Wishes& wishes) {
  toy::ToyOptimizer optimizer;
  if (wishes.flags.contains("--optimizer")) optimizer.kind = wishes.flags.at("--optimizer");
  optimizer.learning_rate = 0.0625;
  if (optimizer.kind == "sgd") optimizer.momentum = 0.5;
  return {parameters(), 1.0, optimizer, static_cast<uint32_t>(wishes.job.replicas)};
}

uint64_t hash_of(const toy::ToyState& state) {
  sdk::Hash hash({state.weights.size()});
  for (const auto* values : {&state.weights, &state.momenta, &state.squares}) {
    for (const std::vector<double>& one : *values) hash.add(one.data(), one.size() * sizeof(double));
  }
  hash.add(state.steps.data(), state.steps.size() * sizeof(int64_t));
  return hash.value();
}

std::string life_of(const Wishes& wishes, toy::ToyRank& rank) {
  std::ostringstream text;
  toy::ToyState saved;
  host::StrategyState strategy;
  for (const bool is_resumed : {false, true}) {
    toy::ToyModel model = model_of(wishes);
    if (is_resumed) model.set_state(saved);
    host::StepEngine& engine = rank.runtime.configure(model);
    if (is_resumed) {
      rank.runtime.load_state(strategy, kSaved);
    } else {
      train(wishes, rank, model, engine, 0, kSaved);
      rank.runtime.pause(COHORT_PAUSE_CHECKPOINT);
      saved = model.state();
      strategy = rank.runtime.save_state();
    }
    train(wishes, rank, model, engine, kSaved, wishes.job.autotune_file ? kTunedSteps : kSteps);
    rank.runtime.pause(COHORT_PAUSE_END);
    text << " " << std::hex << hash_of(model.state()) << std::dec;
    for (const auto& [name, value] : rank.runtime.strategy_metrics()) text << " " << name << "=" << value;
    rank.runtime.release_model(model);
  }
  text << " " << rank.runtime.bytes_sent() << " bytes";
  return text.str();
}

#ifdef COHORT_USE_GROWN
// Throws if a plugin has an answer to a question that is newer than the plugin.
void ask_the_new_use(host::PluginHost& plugins) {
  for (const host::LoadedPlugin& plugin : plugins.loaded()) {
    for (const cohort_component* const* it = plugin.descriptor->components; *it; ++it) {
      if (!(*it)->supports) continue;
      cohort_query query{};
      query.struct_size = sizeof query;
      query.use = COHORT_USE_GROWN;
      query.world_size = query.local_world_size = 2;
      query.num_nodes = query.replicas = 1;
      query.variant = query.below_spec = "";
      (*it)->supports(plugins.plain_host(), &query);
      if (query.answer != COHORT_ANSWER_UNKNOWN || query.grown != COHORT_GROWN_VALUE)
        throw std::runtime_error(std::string((*it)->name) + " answers a question that it cannot know");
    }
  }
}
#endif

}  // namespace

int main(int count, char** words) try {
  host::PluginSearch search;
  Wishes wishes = wishes_of(count, words, search);
  host::Log log(host::LogSettings{});
  host::PluginHost plugins(search, log);
  wishes.job.plugin_host = &plugins;
  std::vector<std::string> lives(static_cast<size_t>(wishes.job.world_size));
  toy::run_ranks(wishes.job,
                 [&](toy::ToyRank& rank) { lives[static_cast<size_t>(rank.rank)] = life_of(wishes, rank); });
#ifdef COHORT_USE_GROWN
  ask_the_new_use(plugins);
#endif
  for (size_t rank = 0; rank < lives.size(); ++rank) std::cout << "rank " << rank << ":" << lives[rank] << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
