// Names that users of PyTorch Lightning know.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <cohort/host/option_table.hpp>

namespace cohort::host {
namespace {

struct Foreign {
  std::string_view name;
  std::string_view answer;
};

constexpr std::string_view kSharded =
    "--strategy=sharded is nearest: it divides the optimizer's state over the ranks, and each keeps all weights";
constexpr std::string_view kForked = "--strategy=ddp_spawn forks the ranks where fit is called";
constexpr std::string_view kUnused = "--strategy=ddp needs no such setting: it finds parameters without a gradient";

constexpr std::string_view kNoSearch =
    "nothing is searched for; cohort submit --grid runs a program with several values";
constexpr std::string_view kNoMinimum =
    "there is no such limit: a training ends early by --early-stopping alone, of which patience=N says how late";
constexpr std::string_view kShares =
    "each rank reads its share of a dataset; a sampler of the loader chooses otherwise";
constexpr std::string_view kWorkers = "the loader of the program says how many threads read: .workers = N";

constexpr std::array kFlags{
    Foreign{"auto-lr-find", kNoSearch},
    Foreign{"auto-scale-batch-size", "--pieces=auto trains a batch for which there is no memory in more pieces"},
    Foreign{"benchmark", "cuDNN measures its kernels if the program calls at::globalContext().setBenchmarkCuDNN(true)"},
    Foreign{"callbacks", "callbacks are given in the program, to app.trainer({.callbacks = {...}})"},
    Foreign{"ckpt-path", "--resume=DIR goes on from a checkpoint"},
    Foreign{"default-root-dir", "--log-dir=DIR and --checkpoint-dir=DIR say where files are written"},
    Foreign{"enable-checkpointing", "checkpoints are written if --checkpoint-dir=DIR is given"},
    Foreign{"enable-model-summary", "--log-level=warning leaves the table of the model out"},
    Foreign{"enable-progress-bar", "the bar is shown on a terminal only, and --log-level=warning leaves it out"},
    Foreign{"inference-mode", "evaluation and prediction always run without gradients"},
    Foreign{"min-epochs", kNoMinimum},
    Foreign{"min-steps", kNoMinimum},
    Foreign{"num-processes", "--devices=N says how many ranks a machine has"},
    Foreign{"num-workers", kWorkers},
    Foreign{"reload-dataloaders-every-n-epochs",
            "a training asks once for its loader; a dataset or sampler of one's own may change with the epoch"},
    Foreign{"replace-sampler-ddp", kShares},
    Foreign{"resume-from-checkpoint", "--resume=DIR goes on from a checkpoint"},
    Foreign{"use-distributed-sampler", kShares},
    Foreign{"profiler", "--profile=FILE prints the time of each phase and writes a trace of all ranks"},
};

/// By the beginnings of names: "fsdp" answers "fsdp_native" as well.
constexpr std::array kStrategies{
    Foreign{"ddp_find_unused", kUnused}, Foreign{"ddp_fork", kForked},   Foreign{"ddp_notebook", kForked},
    Foreign{"ddp_sharded", kSharded},    Foreign{"deepspeed", kSharded}, Foreign{"fsdp", kSharded},
};

}  // namespace

std::string answer_to_foreign_flag(std::string_view name) {
  const auto found = std::ranges::find(kFlags, name, &Foreign::name);
  return found == kFlags.end() ? "" : std::string(found->answer);
}

std::string answer_to_foreign_strategy(std::string_view name) {
  const auto found = std::ranges::find_if(kStrategies, [&](const Foreign& one) { return name.starts_with(one.name); });
  return found == kStrategies.end() ? "" : std::string(found->answer);
}

}  // namespace cohort::host
