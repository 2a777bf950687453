#include <cohort/host/combinations.hpp>

#include <algorithm>
#include <array>

namespace cohort::host {
namespace {

using std::string_view;

constexpr std::array kUses{
    UseText{Use::kAlone, "alone", "use several devices without a launcher"},
    UseText{Use::kLaunched, "launched", "be one of several ranks that a launcher has started"},
    UseText{Use::kNodes, "nodes", "train on several nodes"},
    UseText{Use::kGpu, "gpu", "use GPUs"},
    UseText{Use::kOwnLoop, "own-loop", "serve a loop of one's own (Session)"},
    UseText{Use::kAccumulation, "accumulate", "accumulate gradients over batches"},
    UseText{Use::kClipping, "clip", "clip gradients"},
    UseText{Use::kSeveralOptimizers, "optimizers", "train with several optimizers"},
    UseText{Use::kByHand, "by-hand", "let training_step run the optimizers by hand"},
    UseText{Use::kLbfgs, "lbfgs", "train with LBFGS"},
};

constexpr string_view kReplicas =
    "of what replicas write into buffers and members only replica 0's is kept; ddp is recommended: each device "
    "then has a process of its own, which loads its data and waits for no other before gradients are averaged";

constexpr std::array kTable{
    Combination{"single", "1 x 1", ""},    Combination{"dp", "1 x k", kReplicas},   Combination{"ddp", "k x 1", ""},
    Combination{"ddp_spawn", "k x 1", ""}, Combination{"ddp2", "1 x k", kReplicas}, Combination{"horovod", "k x 1", ""},
    Combination{"bagua", "k x 1", ""},
};

struct Refusal {
  string_view strategy;  ///< "" all
  Use use;
  string_view text;
};

constexpr string_view kOneProcess = "it is one process that talks to nobody; choose --strategy=ddp";
constexpr string_view kForward = "a forward pass of one's own cannot be split over replicas; choose --strategy=ddp";
constexpr string_view kTogether = "its replicas take one step together; choose --strategy=ddp";

/// Everything else works.
constexpr std::array kRefusals{
    Refusal{"single", Use::kAlone, kOneProcess},
    Refusal{"single", Use::kLaunched, kOneProcess},
    Refusal{"single", Use::kNodes, kOneProcess},
    Refusal{"dp", Use::kLaunched, "its replicas are threads of one process; start one rank, or choose --strategy=ddp"},
    Refusal{"dp", Use::kNodes, "its replicas are threads of one process; choose --strategy=ddp2 or ddp"},
    Refusal{"dp", Use::kOwnLoop, kForward},
    Refusal{"dp", Use::kByHand, kTogether},
    Refusal{"ddp_spawn", Use::kLaunched, "it forks its ranks itself; choose --strategy=ddp"},
    Refusal{"ddp_spawn", Use::kNodes, "its ranks are forks of one process; choose --strategy=ddp"},
    Refusal{"ddp_spawn", Use::kGpu, "a process that uses a GPU cannot be forked; choose --strategy=ddp"},
    Refusal{"ddp_spawn", Use::kOwnLoop, "only fit, validate and test can be forked; choose --strategy=ddp"},
    Refusal{"ddp2", Use::kOwnLoop, kForward},
    Refusal{"ddp2", Use::kByHand, kTogether},
    Refusal{"horovod", Use::kAlone,
            "a driver starts its ranks; start the program with mpirun -np N or cohort run -np N"},
    Refusal{"bagua:qadam", Use::kClipping,
            "after its warm-up it averages momenta, not gradients; leave clipping out, or choose "
            "--strategy=bagua:bytegrad"},
    Refusal{"", Use::kLbfgs,
            "it evaluates its loss several times in a step, which no strategy of this version repeats; "
            "choose another optimizer"},
};

}  // namespace

std::span<const UseText> uses() {
  return kUses;
}

std::span<const Combination> combinations() {
  return kTable;
}

std::string_view refusal_of(std::string_view strategy, Use use) {
  const auto found = std::ranges::find_if(kRefusals, [&](const Refusal& refusal) {
    return refusal.use == use && (refusal.strategy.empty() || refusal.strategy == strategy);
  });
  return found == kRefusals.end() ? string_view() : found->text;
}

std::string_view refusal_of(const StrategySpec& strategy, Use use) {
  const string_view of_variant = refusal_of(strategy.name + ":" + strategy.variant, use);
  return of_variant.empty() ? refusal_of(strategy.name, use) : of_variant;
}

}  // namespace cohort::host
