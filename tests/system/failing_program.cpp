// A program in which one rank fails. Started by failure_test.py.
//   --how=throw       the rank's training_step throws in batch 5; --late-rank computes for a second there
//   --how=nan         its loss of batch 5 is a NaN
//   --how=optimizer   LibTorch refuses a step of its optimizer
//   --how=sparse, sparse-sgd   the gradients are sparse, for Adam or SGD
//   --how=order       it calls a barrier where the others reduce
//   --how=type        it reduces float64 where the others reduce float32
//   --how=busy        it computes until the others have left
//   --how=die         it is killed before the ranks compare their models
//   --how=exit, quick-exit, exit-3, exit-in-thread   it ends its process in batch 5
//   --how=close       it closes all its files in batch 5
//   --how=abort, segv   it crashes in batch 5
//   --how=sleep       it never ends batch 5, and makes the file "asleep" there
//   --how=data-segv, data-sleep   the same while batch 5 is read, by as many --workers
//   --how=device      its device fails in batch 5, and memory of the device cannot be freed any more
//   --how=device-library   the same, and a library above the device tells of it by a status of its own
//   --how=device-call   a call of its device fails there, which can be freed
//   --how=device-outside   the same after the training, in no hook
// With --failing-rank=-1 all of them do so.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cohort/cohort.hpp>
#include <cohort/host/error.hpp>

namespace failing_program {
namespace {

/// Blocks until this rank is the only child of its launcher: until the others have left.
void stay_busy() {
  using namespace std::chrono_literals;
  const std::string launcher = std::to_string(::getppid());
  const auto hang = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < hang) {
    std::ifstream children("/proc/" + launcher + "/task/" + launcher + "/children");
    pid_t own = 0, other = 0;
    if (!(children >> own >> other)) return;
    std::this_thread::sleep_for(20ms);
  }
}

void end_process(const std::string& how) {
  if (how == "exit") std::exit(0);
  if (how == "exit-3") std::exit(3);
  if (how == "quick-exit") std::quick_exit(0);
  if (how == "exit-in-thread") std::thread([] { std::exit(0); }).join();
  if (how == "close") ::closefrom(0);
  if (how == "abort") std::abort();
  if (how == "segv") *reinterpret_cast<volatile int*>(uintptr_t{8}) = 1;
  if (how == "sleep") {
    std::ofstream("asleep") << '\n';
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

[[noreturn]] void throw_device_error() {
  throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 710, "CUDA error: device-side assert triggered");
}

/// A device of LibTorch that is lost.
struct LostDevice : c10::impl::NoOpDeviceGuardImpl<c10::kPrivateUse1> {
  bool queryStream(const c10::Stream&) const override { throw_device_error(); }

  static void add() {
    struct Hooks : at::PrivateUse1HooksInterface {
      bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    };
    static const LostDevice guard;
    c10::register_privateuse1_backend("lost");
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    c10::impl::DeviceGuardImplRegistrar(c10::kPrivateUse1, &guard);
  }
};

/// As a tensor of a failed device: its destructor throws, which ends the process.
struct DeviceMemory {
  ~DeviceMemory() {
    if (has_failed) throw_device_error();
  }
  [[noreturn]] void fail() {
    has_failed = is_lost;
    if (is_in_library) LostDevice::add();
    TORCH_CHECK(!is_in_library, "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasSgemm");
    if (is_lost) throw_device_error();
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 900, "CUDA error: operation not permitted");
  }
  bool is_lost = true;
  bool is_in_library = false;
  bool has_failed = false;
};

struct BrokenSgd : torch::optim::SGD {
  using torch::optim::SGD::SGD;
  torch::Tensor step(LossClosure /*closure*/) override { return torch::ones({2}) + torch::ones({3}); }
};

struct Line : cohort::ModuleFor<Line> {
  Line() : fc(register_module("fc", torch::nn::Linear(1, 1))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    if (memory && index == 5) memory->fail();
    if (throws && index == 5) throw std::runtime_error("the disk is on fire");
    if (index == 5 && is_busy) stay_busy();
    if (index == 5) end_process(ends);
    if (index == 5 && is_late) std::this_thread::sleep_for(std::chrono::seconds(1));
    const auto loss = torch::mse_loss(fc(batch[0]), batch[1]);
    return is_nan && index == 5 ? loss * NAN : loss;
  }
  void on_exception(const std::exception&) override { std::fputs("on_exception was called\n", stderr); }
  cohort::Optimizers configure_optimizers() override {
    if (dies) std::raise(SIGKILL);
    if (is_broken) return std::make_shared<BrokenSgd>(parameters(), 0.1);
    return torch::optim::SGD(parameters(), 0.1);
  }
  torch::nn::Linear fc;
  bool throws = false, is_nan = false, is_broken = false, is_busy = false, is_late = false, dies = false;
  std::string ends;
  DeviceMemory* memory = nullptr;  // that fails; or null
};

/// One word for all batches, with a sparse gradient.
struct Word : cohort::ModuleFor<Word> {
  explicit Word(bool given_adam)
      : with_adam(given_adam),
        words(register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 1).sparse(true)))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    return torch::mse_loss(words(torch::zeros_like(batch[0], torch::kLong)).squeeze(2), batch[1]);
  }
  cohort::Optimizers configure_optimizers() override {
    if (with_adam) return torch::optim::Adam(parameters());
    return torch::optim::SGD(parameters(), 0.1);
  }
  bool with_adam;
  torch::nn::Embedding words;
};

/// Ends the process while it reads batch 5.
struct Broken final : cohort::Dataset {
  Broken(std::vector<torch::Tensor> tensors, std::string how) : all(std::move(tensors)), ends(std::move(how)) {}
  int64_t size() const override { return all.size(); }
  cohort::Batch get(std::span<const int64_t> indices) override {
    if (batches++ == 5) end_process(ends);
    return all.get(indices);
  }
  cohort::TensorDataset all;
  std::string ends;
  int batches = 0;
};

struct Points : cohort::DataModule {
  cohort::Loader train() override {
    const auto x = torch::linspace(-1, 1, 256).unsqueeze(1);
    return {.dataset = std::make_shared<Broken>(std::vector{x, 2 * x}, ends), .batch_size = 4, .workers = workers};
  }
  std::string ends;
  int workers = 0;
};

void fail(cohort::App& app, const std::string& how, bool here, bool late) {
  if (how == "order") {
    double value = 1;
    here ? app.runtime().barrier() : app.runtime().all_reduce_sum({&value, 1});
    return;
  }
  Points data;
  if (how.starts_with("sparse")) {
    Word word(how == "sparse");
    app.trainer().fit(word, data);
    return;
  }
  Line model;
  if (how == "type") {
    auto session = app.session(model, model.configure_optimizers());
    session.all_reduce(torch::ones({10}, here ? torch::kFloat64 : torch::kFloat32));
    return;
  }
  model.throws = here && how == "throw";
  model.is_broken = here && how == "optimizer";
  model.is_nan = here && how == "nan";
  model.is_busy = here && how == "busy";
  model.is_late = late;
  model.dies = here && how == "die";
  if (here) model.ends = how;
  if (here && how.starts_with("data-")) data.ends = how.substr(5);
  data.workers = static_cast<int>(app.integer_option("workers"));
  DeviceMemory memory;
  memory.is_lost = how != "device-call";
  memory.is_in_library = how == "device-library";
  if (here && (how == "device" || how == "device-call" || how == "device-library")) model.memory = &memory;
  app.trainer().fit(model, data);
  if (here && how == "device-outside") memory.fail();
  if (how == "device-outside") app.runtime().barrier();
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("failing_program")
      .option("how", "", "what goes wrong")
      .option("failing-rank", "1", "the rank in which it goes wrong")
      .option("workers", "0", "threads that read batches")
      .option("late-rank", "-1", "a rank that takes a second longer than the others to notice")
      .defaults([](cohort::Options& options) { options.max_epochs = 2; })
      .run(argc, argv, [](cohort::App& app) {
        const int64_t rank = app.runtime().rank(), failing = app.integer_option("failing-rank");
        fail(app, app.option("how"), rank == failing || failing == -1, rank == app.integer_option("late-rank"));
      });
}

}  // namespace failing_program
