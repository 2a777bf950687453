// A program that connects its ranks by a function of its own, started by connect_test.py. It trains on a few samples
// and prints the weights. --connect says what the function does; without it there is none:
//   plain       connects and nothing else
//   moved       connects at 127.0.0.1 and the port --to-port
//   never       does not connect
//   twice       connects, and again
//   throw       throws in place of connecting
//   late-throw  throws when it has connected
// With --odd-rank=R the rank R alone does that, and the others `plain`. Each call adds a line to FOLDER/rank-R.
// --loop=session trains in a loop of the program's own.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <cohort/cohort.hpp>

namespace connect_program {
namespace {

using torch::Tensor;

constexpr int64_t kSamples = 24, kBatch = 2;

/// Flags that the function needs: it runs before there is an App.
struct Flags {
  Flags(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      const auto end = std::min(argument.find('='), argument.size());
      const std::string value(argument.substr(std::min(end + 1, argument.size())));
      if (argument.substr(0, end) == "--connect") how = value;
      if (argument.substr(0, end) == "--to-port") port = std::stoi(value);
      if (argument.substr(0, end) == "--odd-rank") odd_rank = std::stoi(value);
      if (argument.substr(0, end) == "--folder") folder = value;
    }
  }
  std::string how;
  int port = 0, odd_rank = -1;
  std::filesystem::path folder;
};

void note(const std::filesystem::path& folder, const cohort::DistConnection& connection) {
  std::ofstream file(folder / ("rank-" + std::to_string(connection.rank)), std::ios::app);
  file << connection.rank << " of " << connection.world_size << ", " << connection.local_rank << " of "
       << connection.local_world_size << ", node " << connection.node_rank << " of " << connection.num_nodes << '\n';
}

void connect(const Flags& flags, cohort::DistConnection& connection) {
  note(flags.folder, connection);
  const std::string how = flags.odd_rank < 0 || flags.odd_rank == connection.rank ? flags.how : "plain";
  if (how == "throw") throw std::runtime_error("the scheduler is on fire");
  if (how == "never") return;
  if (how == "moved") {
    connection.master_addr = "127.0.0.1";
    connection.master_port = flags.port;
  }
  connection.connect();
  if (how == "twice") connection.connect();
  if (how == "late-throw") throw std::runtime_error("the scheduler is on fire");
}

Tensor samples() {
  torch::manual_seed(5);
  return torch::randn({kSamples, 3}, torch::kFloat64);
}

struct Regression : cohort::ModuleFor<Regression> {
  Regression() : fc(register_module("fc", torch::nn::Linear(3, 2))) { to(torch::kFloat64); }
  Tensor loss(const Tensor& x) { return fc(x).pow(2).mean(); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override { return loss(batch.tensor()); }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  torch::nn::Linear fc;
};

struct Samples : cohort::DataModule {
  cohort::Loader train() override {
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{samples()}), .batch_size = kBatch};
  }
};

void train_in_own_loop(cohort::App& app, Regression& net) {
  const Tensor all = samples();
  auto session = app.session(net, net.configure_optimizers());
  for (int64_t i = app.runtime().rank(); i < kSamples; i += app.runtime().world_size()) {
    session.begin();
    session.backward(net.loss(all.slice(0, i, i + 1)));
    session.step();
  }
  session.finish();
}

void train(cohort::App& app) {
  torch::manual_seed(7);
  Regression net;
  if (app.option("loop") == "session") {
    train_in_own_loop(app, net);
  } else {
    Samples data;
    app.trainer().fit(net, data);
  }
  if (!app.runtime().is_first()) return;
  for (const Tensor& parameter : net.parameters()) {
    const Tensor flat = parameter.detach().flatten();
    for (int64_t i = 0; i < flat.numel(); ++i) std::printf("weight %a\n", flat[i].item<double>());
  }
}

}  // namespace

int run(int argc, char** argv) {
  const Flags flags(argc, argv);
  cohort::Program program("connect_program");
  program.option("connect", "", "what the program's function does")
      .option("to-port", "0", "where it moves the first rank to")
      .option("odd-rank", "-1", "the rank that does it; -1: all")
      .option("folder", "", "for the notes of what ran")
      .option("loop", "trainer", "trainer or session")
      .defaults([](cohort::Options& options) { options.max_epochs = 1; });
  if (!flags.how.empty()) {
    program.init_dist_connection([&flags](cohort::DistConnection& connection) { connect(flags, connection); });
  }
  return program.run(argc, argv, train);
}

}  // namespace connect_program
