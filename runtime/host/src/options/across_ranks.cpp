// The table of how ranks compare each common flag, with the reason. Every common flag has a row.
#include "options/across_ranks.hpp"

#include <algorithm>

#include "options/flag_table.hpp"

namespace cohort::host {
namespace {

constexpr FlagAcross kFlagsAcross[] = {
    {"autotune", Across::kGiven, "ranks try ways to communicate together; rank 0 writes the file"},
    {"strategy", Across::kAsUsed, "the strategy that was chosen is compared when ranks meet"},
    {"layer", Across::kAsUsed, "compared when ranks meet"},
    {"accelerator", Across::kAsUsed, "its plugin is compared when ranks meet"},
    {"devices", Across::kOwn, "nodes may number their devices differently"},
    {"num-nodes", Across::kAsUsed, "the number of nodes is compared when ranks meet"},
    {"collective", Across::kAsUsed, "the collective that was chosen is compared when ranks meet"},
    {"bucket-size", Across::kAsUsed, "compared when ranks meet"},
    {"threads", Across::kOwn, "nodes may have different numbers of cores"},
    {"max-epochs", Across::kSame, "ranks would leave the loop at different steps"},
    {"max-steps", Across::kSame, "the same"},
    {"max-time", Across::kSame, "rank 0's counts; another one would be ignored"},
    {"limit-train-batches", Across::kSame, "ranks would leave the epoch at different steps"},
    {"limit-val-batches", Across::kSame, "the means over all ranks would be of different shares"},
    {"limit-test-batches", Across::kSame, "the same"},
    {"limit-predict-batches", Across::kSame, "the outputs would have gaps"},
    {"overfit-batches", Across::kSame, "ranks would leave the epoch at different steps"},
    {"val-check-interval", Across::kSame, "ranks would validate at different steps"},
    {"check-val-every-n-epoch", Across::kSame, "ranks would validate in different epochs"},
    {"num-sanity-val-steps", Across::kSame, "ranks validate together before they train"},
    {"log-every-n-steps", Across::kSame, "without gradients ranks vote at these steps"},
    {"accumulate-grad-batches", Across::kSame, "ranks would communicate at different batches"},
    {"gradient-clip-val", Across::kSame, "ranks would take different steps"},
    {"precision", Across::kSame, "ranks would average gradients of other weights"},
    {"gradient-clip-algorithm", Across::kSame, "the same"},
    {"early-stopping", Across::kSame, "ranks would leave the loop at different steps"},
    {"ema", Across::kSame, "ranks would validate different weights"},
    {"track-grad-norm", Across::kSame, "where ranks own parameters they put their norms together"},
    {"sync-batchnorm", Across::kSame, "ranks would wait for statistics of the others"},
    {"unused", Across::kSame, "ranks would take different steps"},
    {"uneven", Across::kSame, "ranks would leave the epoch at different steps"},
    {"detect-anomaly", Across::kOwn, "each rank watches its own backward"},
    {"graph", Across::kSame, "ranks would communicate at different moments of a step"},
    {"seed", Across::kSame, "ranks would shuffle differently, and see samples twice or never"},
    {"resume-settings", Across::kSame, "ranks would resume with other settings of optimizers"},
    {"rank-noise", Across::kSame, "some ranks would draw the same random numbers"},
    {"deterministic", Across::kSame, "ranks would add up in different orders"},
    {"barebones", Across::kSame, "it turns validation off, which ranks do together"},
    {"fast-dev-run", Across::kSame, "ranks would leave the loop at different steps"},
    {"checkpoint-dir", Across::kGiven,
     "ranks write checkpoints together; the folder may have another name on another node"},
    {"resume", Across::kGiven,
     "ranks go on together; where they read is compared later, because a folder may have several names"},
    {"checkpoint-every-n-steps", Across::kSame, "ranks write checkpoints together"},
    {"keep-checkpoints", Across::kSame, "rank 0's counts; another one would be ignored"},
    {"monitor", Across::kSame, "ranks write checkpoints together"},
    {"keep-best", Across::kSame, "rank 0's counts; another one would be ignored"},
    {"plugin", Across::kOwn, "the contents of plugins are compared when ranks meet, not where they lie"},
    {"plugin-dir", Across::kOwn, "the same"},
    {"config", Across::kOwn, "what it says is compared, not where it lies"},
    {"print-config", Across::kOwn, "ends the program before there are ranks"},
    {"log-dir", Across::kOwn, "each rank writes its own log"},
    {"logger", Across::kOwn, "rank 0 writes what is measured"},
    {"profile", Across::kGiven, "ranks compare clocks and gather times together; rank 0 writes the file"},
    {"log-level", Across::kOwn, "each rank writes its own log"},
    {"log-format", Across::kOwn, "the same"},
    {"summary-json", Across::kGiven, "ranks gather the summary together; rank 0 writes the file"},
    {"timeout", Across::kOwn, "each rank's own patience"},
    {"insecure", Across::kOwn, "each rank judges the network for itself"},
    {"malloc", Across::kOwn, "memory of the own process"},
};

std::string line_of(const Flag& flag, Across across, const Options& options) {
  const auto printed = flag.print(options);
  const bool is_given = printed && !printed->empty();
  if (across == Across::kGiven) return is_given ? "given" : "none";
  return is_given ? *printed : "none";
}

}  // namespace

std::span<const FlagAcross> flags_across_ranks() {
  return kFlagsAcross;
}

std::string text_across_ranks(const Options& options) {
  std::string text;
  for (const Flag& flag : common_flags()) {
    const auto row = std::ranges::find(kFlagsAcross, flag.name, &FlagAcross::name);
    if (row == std::end(kFlagsAcross) || (row->across != Across::kSame && row->across != Across::kGiven)) continue;
    text += flag.name + " = " + line_of(flag, row->across, options) + "\n";
  }
  return text;
}

}  // namespace cohort::host
