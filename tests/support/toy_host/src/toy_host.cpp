#include <cohort/toy_host/toy_host.hpp>

#include <exception>
#include <mutex>
#include <thread>

#include <cohort/host/error.hpp>
#include <cohort/toy_host/memory_store.hpp>

namespace cohort::toy {
namespace {

// Hands every rank the same memory store.
class SharedStore final : public host::Store {
 public:
  explicit SharedStore(MemoryStore& store) : store_(store) {}
  void set(const std::string& key, std::string_view value) override { store_.set(key, value); }
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override {
    return store_.get(key, timeout);
  }
  std::optional<std::string> try_get(const std::string& key) override { return store_.try_get(key); }
  int64_t add(const std::string& key, int64_t amount) override { return store_.add(key, amount); }
  void remove(const std::string& key) override { store_.remove(key); }
  uint64_t count() override { return store_.count(); }

 private:
  MemoryStore& store_;
};

host::Topology topology_of(const ToyJob& job, int rank) {
  host::Topology topology;
  topology.launcher = host::Launcher::kManual;
  topology.rank = rank;
  topology.world_size = job.world_size;
  topology.num_nodes = job.num_nodes;
  topology.local_world_size = job.world_size / job.num_nodes;
  topology.local_rank = rank % topology.local_world_size;
  topology.node_rank = rank / topology.local_world_size;
  topology.ranks_on_machine = job.world_size;
  topology.run_id = "toy";
  return topology;
}

host::Selection selection_of(const ToyJob& job) {
  host::Selection selection;
  selection.strategy = job.strategy;
  selection.layers = job.layers;
  selection.collective = job.collective;
  selection.accelerator = job.accelerator;
  selection.processes_per_node = job.world_size / job.num_nodes;
  selection.num_nodes = job.num_nodes;
  return selection;
}

std::vector<std::exception_ptr> run(const ToyJob& job, const std::function<void(ToyRank&)>& body) {
  host::LogSettings quiet;
  quiet.level = host::LogLevel::kOff;
  host::Log log(quiet);
  host::PluginSearch search;
  search.files = job.plugins;
  search.directories = host::default_directories(job.plugin_dirs, "", "");
  host::PluginHost plugins(search, log);
  const host::Selection selection = selection_of(job);
  MemoryStore store;
  // Made one after the other: opening plugins belongs to one thread.
  std::vector<std::unique_ptr<host::RankRuntime>> runtimes;
  for (int rank = 0; rank < job.world_size; ++rank) {
    runtimes.push_back(std::make_unique<host::RankRuntime>(
        host::RankSetup{.plugins = plugins,
                        .selection = selection,
                        .topology = topology_of(job, rank),
                        .log = log,
                        .timeout = job.timeout,
                        .connect_timeout = job.timeout,
                        .bucket_size = job.bucket_size,
                        .open_store = [&](const cohort_dist_args&) { return std::make_unique<SharedStore>(store); }}));
  }
  std::vector<std::exception_ptr> failures(runtimes.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < runtimes.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        runtimes[rank]->connect();
        ToyRank toy{*runtimes[rank], static_cast<int>(rank), job.world_size};
        body(toy);
        runtimes[rank]->shutdown();
      } catch (...) {
        failures[rank] = std::current_exception();
        runtimes[rank]->abort();  // as if its process had ended
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failures;
}

}  // namespace

Votes ToyRank::step(host::StepEngine& engine, ToyModel& model, std::span<const std::vector<double>> gradients) {
  engine.begin(true);
  // Backward reaches the last parameters first.
  for (size_t i = gradients.size(); i-- > 0;) {
    if (gradients[i].empty()) continue;
    model.add_gradient(static_cast<uint32_t>(i), gradients[i]);
    engine.gradient_ready(static_cast<uint32_t>(i));
  }
  engine.end_backward();
  for (uint32_t i = 0; i < gradients.size(); ++i) {
    if (engine.is_used(i)) model.show_gradient(i);
  }
  engine.optimizer_step();
  for (uint32_t i = 0; i < gradients.size(); ++i) model.forget_gradient(i);
  runtime.between_steps();
  return engine.votes();
}

void run_ranks(const ToyJob& job, const std::function<void(ToyRank&)>& body) {
  for (const std::exception_ptr& failure : run(job, body)) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::vector<std::string> run_ranks_to_failure(const ToyJob& job, const std::function<void(ToyRank&)>& body) {
  std::vector<std::string> texts;
  for (const std::exception_ptr& failure : run(job, body)) {
    texts.emplace_back();
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      texts.back() = error.what();
    }
  }
  return texts;
}

}  // namespace cohort::toy
