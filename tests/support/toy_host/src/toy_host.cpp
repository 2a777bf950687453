#include <cohort/toy_host/toy_host.hpp>

#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include <cohort/host/error.hpp>
#include <cohort/toy_host/forwarding_store.hpp>
#include <cohort/toy_host/memory_store.hpp>

namespace cohort::toy {
namespace {

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
  selection.replicas = job.replicas;
  selection.parts = job.parts;
  return selection;
}

// What ranks of one process share.
class Site {
 public:
  using OpenStore = std::function<std::unique_ptr<host::Store>(const cohort_dist_args&)>;

  explicit Site(const ToyJob& job)
      : job_(job), log_(quiet()), own_plugins_(search_of(job), log_), selection_(selection_of(job)) {}

  std::unique_ptr<host::ConnectedRank> make_rank(int rank, OpenStore open_store) {
    if (job_.make_device && !devices_[rank]) devices_[rank] = job_.make_device(rank);
    return std::make_unique<host::ConnectedRank>(
        host::RankSetup{.plugins = job_.plugin_host ? *job_.plugin_host : own_plugins_,
                        .selection = selection_,
                        .topology = topology_of(job_, rank),
                        .log = log_,
                        .timeout = job_.timeout,
                        .connect_timeout = job_.timeout,
                        .bucket_size = job_.bucket_size,
                        .autotune_file = job_.autotune_file,
                        .inspects_layers = job_.inspects_layers,
                        .secret = job_.secret,
                        .device_port = devices_[rank] ? devices_[rank]->port() : nullptr,
                        .open_store = std::move(open_store)});
  }

  // From connect to shutdown.
  void live(host::ConnectedRank& runtime, const std::function<void(ToyRank&)>& body) const {
    const int rank = runtime.topology().rank;
    ToyDevice* const device = devices_.contains(rank) ? devices_.at(rank).get() : nullptr;
    if (device) device->port()->set_current(device->port()->make_stream(device->device()));
    try {
      runtime.connect();
      ToyRank toy{runtime, rank, job_.world_size, device};
      body(toy);
      runtime.shutdown();
    } catch (...) {
      runtime.abort();  // as if its process had ended
      throw;
    }
  }

 private:
  static host::LogSettings quiet() {
    host::LogSettings settings;
    settings.level = host::LogLevel::kOff;
    return settings;
  }

  static host::PluginSearch search_of(const ToyJob& job) {
    host::PluginSearch search;
    search.files = job.plugins;
    search.directories = host::default_directories(job.plugin_dirs, "", "");
    return search;
  }

  const ToyJob& job_;
  std::map<int, std::unique_ptr<ToyDevice>> devices_;  // by rank
  host::Log log_;
  host::PluginHost own_plugins_;
  host::Selection selection_;
};

std::vector<std::exception_ptr> run(const ToyJob& job, const std::function<void(ToyRank&)>& body) {
  Site site(job);
  MemoryStore store;
  // Made one after the other: opening plugins belongs to one thread.
  std::vector<std::unique_ptr<host::ConnectedRank>> runtimes;
  for (int rank = 0; rank < job.world_size; ++rank) {
    runtimes.push_back(site.make_rank(rank, [&, rank](const cohort_dist_args&) -> std::unique_ptr<host::Store> {
      if (job.open_store) return job.open_store(store, rank);
      return std::make_unique<ForwardingStore>(store);
    }));
  }
  std::vector<std::exception_ptr> failures(runtimes.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < runtimes.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        site.live(*runtimes[rank], body);
      } catch (...) {
        failures[rank] = std::current_exception();
      }
      runtimes[rank].reset();  // on the thread whose streams it has used
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failures;
}

// The stream of a replica's thread.
class ReplicaStream {
 public:
  explicit ReplicaStream(ToyDevice* device) : port_(device ? device->port() : nullptr) {
    if (!port_) return;
    stream_ = port_->make_stream(device->device());
    before_ = port_->current(device->device());
    follow(stream_, before_);
  }
  void enter() const {
    if (port_) port_->set_current(stream_);
  }
  void leave() const {
    if (port_) follow(before_, stream_);
  }

 private:
  host::DevicePort* port_;
  cohort_stream stream_{}, before_{};

  void follow(const cohort_stream& later, const cohort_stream& earlier) const {
    port_->order(later, *port_->record(earlier));
  }
};

// Backward reaches the last parameters first.
void backward_of(uint32_t replica, host::StepEngine& engine, ToyModel& model, ToyRank::Gradients gradients) {
  for (size_t i = gradients.size(); i-- > 0;) {
    if (gradients[i].empty()) continue;
    const auto parameter = static_cast<uint32_t>(i);
    model.add_gradient(parameter, gradients[i], replica);
    engine.gradient_ready(parameter, replica);
  }
}

}  // namespace

void ToyRank::backward(host::StepEngine& engine, ToyModel& model, Gradients gradients, bool last, uint32_t phase) {
  const size_t parameters = model.parameters().size();
  std::vector<std::exception_ptr> failures(model.num_replicas());
  const auto run_replica = [&](uint32_t replica) {
    try {
      backward_of(replica, engine, model, gradients.subspan(replica * parameters, parameters));
    } catch (...) {
      failures[replica] = std::current_exception();
    }
  };
  engine.begin(last, phase);
  // A backward begins behind what the caller has enqueued, and the caller goes on behind all of them, as autograd does.
  std::vector<std::unique_ptr<ReplicaStream>> streams;
  std::vector<std::thread> threads;
  for (uint32_t replica = 1; replica < model.num_replicas(); ++replica) {
    streams.push_back(std::make_unique<ReplicaStream>(device));
    threads.emplace_back([&run_replica, stream = streams.back().get(), replica] {
      stream->enter();
      run_replica(replica);
    });
  }
  run_replica(0);
  for (std::thread& thread : threads) thread.join();
  for (const auto& stream : streams) stream->leave();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  engine.end_backward();
}

void ToyRank::limit_gradients(host::StepEngine& engine, uint32_t phase) {
  const host::Device where = device ? device->device() : host::Device{};
  const host::RankDevices devices = device ? device->devices() : host::RankDevices();
  const auto release = [&](void* memory) { devices.release_or_leave(where, memory); };
  const std::unique_ptr<void, decltype(release)> measured(devices.alloc(where, sizeof norm), release);
  engine.clip_gradients(phase, clip->by, clip->limit, static_cast<double*>(measured.get()));
  devices.copy_to_host(where, &norm, measured.get(), sizeof norm);
}

void ToyRank::update(host::StepEngine& engine, ToyModel& model, uint32_t phase) {
  const auto parameters = static_cast<uint32_t>(model.parameters().size());
  for (uint32_t i = 0; i < parameters; ++i) {
    if (model.phase_of(i) != phase || !engine.is_used(i)) continue;
    if (runtime.has_mean_gradient(i)) {
      model.show_gradient(i);
    } else {
      model.forget_gradient(i);
    }
  }
  if (clip) limit_gradients(engine, phase);
  engine.optimizer_step(phase);
  for (uint32_t i = 0; i < parameters; ++i) {
    if (model.phase_of(i) == phase) model.forget_gradient(i);
  }
  runtime.between_steps();
}

Votes ToyRank::step(host::StepEngine& engine, ToyModel& model, Gradients gradients) {
  backward(engine, model, gradients);
  update(engine, model);
  return engine.votes();
}

void run_rank(const ToyJob& job, int rank, cohort_store* store, const std::function<void(ToyRank&)>& body) {
  Site site(job);
  const auto runtime =
      site.make_rank(rank, [&](const cohort_dist_args&) { return std::make_unique<host::PrefixedStore>(store, ""); });
  site.live(*runtime, body);
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
