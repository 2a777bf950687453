#include "wide_job.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>

#include <cohort/diagnosis/post_mortem.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/process.hpp>
#include <cohort/host/served_store.hpp>
#include <cohort/toy_host/toy_host.hpp>

namespace cohort::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kCause = "no such file 'data'";
// Length and seal of a frame; what a request and an answer have besides key and value.
constexpr uint64_t kFrame = 4 + 16, kRequest = 13, kAnswer = 9;

struct Counts {
  std::atomic<uint64_t> requests{0}, bytes{0};
};

/// A client of the store that counts what it says. What looks for deadlocks twice a second is left out: it goes by the
/// clock.
class CountedStore final : public host::Store {
 public:
  CountedStore(std::unique_ptr<host::Store> store, Counts& counts) : store_(std::move(store)), counts_(counts) {}

  void set(const std::string& key, std::string_view value) override {
    count(key, value.size());
    store_->set(key, value);
  }
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override {
    auto value = store_->get(key, timeout);
    count(key, value ? value->size() : 0);
    return value;
  }
  std::optional<std::string> try_get(const std::string& key) override {
    auto value = store_->try_get(key);
    count(key, value ? value->size() : 0);
    return value;
  }
  int64_t add(const std::string& key, int64_t amount) override {
    count(key, 0);
    return store_->add(key, amount);
  }
  void remove(const std::string& key) override {
    count(key, 0);
    store_->remove(key);
  }
  uint64_t count() override {
    count("", 0);
    return store_->count();
  }
  void all_ranks_met() override { store_->all_ranks_met(); }
  void limit_calls(std::chrono::milliseconds longest) override { store_->limit_calls(longest); }
  void give_up() override { store_->give_up(); }

 private:
  void count(const std::string& key, std::size_t value) {
    if (key.find("deadlock/") != std::string::npos) return;
    ++counts_.requests;
    counts_.bytes += 2 * kFrame + kRequest + kAnswer + key.size() + value;
  }

  std::unique_ptr<host::Store> store_;
  Counts& counts_;
};

/// Returns a socket that listens on loopback, and sets its port.
int listen_on_loopback(int& port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0 ||
      ::listen(descriptor, 4096) != 0 || ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&place), &length) != 0) {
    throw std::runtime_error("no port on loopback");
  }
  port = ntohs(place.sin_port);
  return descriptor;
}

/// Runs the job and takes its figures.
class Measured {
 public:
  Measured(int ranks, const std::vector<std::filesystem::path>& plugins) {
    job_.plugin_dirs = plugins;
    job_.strategy = StrategySpec("ddp");
    job_.collective = CollectiveSpec("crowd");
    job_.world_size = ranks;
    job_.timeout = std::chrono::minutes(5);
    job_.secret = key_;
    descriptor_ = listen_on_loopback(port_);
    job_.open_store = [this](host::Store&, int rank) { return open(rank); };
  }

  WideJob run() {
    begin_ = Clock::now();
    result_.sentences = toy::run_ranks_to_failure(job_, [this](toy::ToyRank& rank) { live(rank); });
    end(result_.failure);
    return result_;
  }

 private:
  const host::Key key_ = host::random_key();
  const std::filesystem::path no_log_dir_;
  toy::ToyJob job_;
  int descriptor_ = -1, port_ = 0;
  Counts counts_;
  Clock::time_point begin_;
  StoreTraffic before_;
  WideJob result_;

  std::unique_ptr<host::Store> open(int rank) {
    if (rank == 0) return host::serve_store(descriptor_, key_, {});
    const host::StoreAddress address{.host = "127.0.0.1", .port = port_};
    return std::make_unique<CountedStore>(host::connect_to_store(address, key_, job_.timeout), counts_);
  }

  void end(Phase& phase) {
    const StoreTraffic now{counts_.requests, counts_.bytes};
    phase.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    phase.traffic = {now.requests - before_.requests, now.bytes - before_.bytes};
    before_ = now;
    begin_ = Clock::now();
  }

  /// Ends a phase once all ranks have come so far.
  void end_together(toy::ToyRank& rank, Phase& phase) {
    rank.runtime.barrier();
    if (rank.rank == 0) end(phase);
    rank.runtime.barrier();
  }

  void live(toy::ToyRank& rank) {
    PostMortem post_mortem(rank.runtime, no_log_dir_);
    try {
      end_together(rank, result_.start);
      rank.runtime.agree("settings", "the same on all ranks", "ranks differ");
      end_together(rank, result_.agreement);
      post_mortem.introduce();
      train(rank);
    } catch (const Error& error) {
      const Failure failure = post_mortem.examine({static_cast<int>(error.code()), error.what(), "Error"});
      post_mortem.leave();
      throw std::runtime_error(failure.message);
    }
  }

  void train(toy::ToyRank& rank) {
    toy::ToyModel model({{"weight", 2}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const auto step = [&] { rank.step(engine, model, std::vector<std::vector<double>>{{1.0, 2.0}}); };
    try {
      step();
      Phase between;
      end_together(rank, between);
      step();
      end_together(rank, result_.votes);
      if (rank.rank == 1) throw TrainingFailed(kCause);
      step();
    } catch (...) {
      rank.runtime.release_model(model);
      throw;
    }
  }
};

}  // namespace

WideJob run_wide_job(int ranks, const std::vector<std::filesystem::path>& plugins) {
  host::raise_open_file_limit();
  return Measured(ranks, plugins).run();
}

}  // namespace cohort::test
