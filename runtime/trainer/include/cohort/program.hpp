// A whole program: flags, launch, errors, exit code.
//
//   int main(int argc, char** argv) {
//     return cohort::Program("mnist").run(argc, argv, [](cohort::App& app) { ... });
//   }
//
// `run` returns the exit code; the body runs in the ranks, on the main thread. Nothing is thrown out of `run`.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/options.hpp>
#include <cohort/run_record.hpp>
#include <cohort/runtime.hpp>
#include <cohort/session.hpp>
#include <cohort/trainer.hpp>

namespace cohort {

/// What a program's body works with, in one rank.
class App {
 public:
  App(Runtime& runtime, RunRecord& record) : runtime_(runtime), record_(record) {}
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  Trainer trainer(TrainerDefaults defaults = {}) { return Trainer(runtime_, record_, defaults); }
  /// For a loop of the program's own.
  Session session(torch::nn::Module& model, Optimizers optimizers) {
    return Session(runtime_, model, std::move(optimizers));
  }

  const Options& options() const { return runtime_.options(); }
  /// The value of one of the program's own options.
  const std::string& option(std::string_view name) const;
  /// The same as a whole number from `lowest` to `highest`, or as a finite number. Throws UserError that names the flag
  /// if the text is no such number.
  int64_t integer_option(std::string_view name, int64_t lowest = std::numeric_limits<int64_t>::min(),
                         int64_t highest = std::numeric_limits<int64_t>::max()) const;
  double number_option(std::string_view name) const;
  Runtime& runtime() { return runtime_; }

 private:
  Runtime& runtime_;
  RunRecord& record_;
};

class Program {
 public:
  explicit Program(std::string name) : name_(std::move(name)) {}

  /// Adds a flag of the program's own.
  Program& option(std::string name, std::string default_value, std::string help);
  /// Sets options in code: they give way to flags, environment and file.
  Program& defaults(const std::function<void(Options&)>& set);

  /// Connects the ranks in a way of the program's own, in every rank, under every launcher, for Trainer and Session: as
  /// a free layer above all others that fills this slot alone. `connect` changes what it must and calls
  /// connection.connect() once. What it throws ends the rank.
  ///
  ///   program.init_dist_connection([](cohort::DistConnection& connection) {
  ///     connection.master_addr = address_from_my_scheduler();
  ///     connection.connect();
  ///   });
  Program& init_dist_connection(std::function<void(DistConnection&)> connect);

  int run(int argc, const char* const* argv, const std::function<void(App&)>& body) const;

 private:
  std::string name_;
  std::function<void(DistConnection&)> connect_;
  std::vector<host::OwnOption> own_;
  Options code_;
};

}  // namespace cohort
