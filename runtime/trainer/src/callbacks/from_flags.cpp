// The callbacks that flags ask for.
#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/sdk/options.hpp>

#include "callbacks/built_in.hpp"
#include "checkpoint/fit_checkpoints.hpp"

namespace cohort {
namespace {

constexpr cohort_option kMode = sdk::option("mode", "enum(min|max)", "min", "which values are better");
constexpr cohort_option kEarlyStopping[] = {
    sdk::option("patience", "int[0..1000000]", "3", "values without improvement that end training"), kMode,
    sdk::option("min_delta", "float", "0", "a smaller change is no improvement")};
constexpr cohort_option kMonitor[] = {
    kMode, sdk::option("name", "string", "", "of a link to each, as epoch={epoch}-val_loss={val_loss:.3f}")};

/// The options of a metric's flag, checked.
class Read {
 public:
  Read(const Spec& spec, std::span<const cohort_option> declared, const std::string& flag)
      : checked_(host::check_options(declared, spec.options, flag)), options_("", checked_.data(), checked_.size()) {}

  const sdk::Options& options() const { return options_; }
  Mode mode() const { return options_.text("mode") == "min" ? Mode::kMin : Mode::kMax; }

 private:
  host::CheckedOptions checked_;
  sdk::Options options_;
};

}  // namespace

std::vector<std::shared_ptr<Callback>> callbacks_of_flags(const Options& options,
                                                          const std::filesystem::path& checkpoints) {
  std::vector<std::shared_ptr<Callback>> callbacks;
  if (options.track_grad_norm) callbacks.push_back(std::make_shared<GradientNorm>(*options.track_grad_norm));
  if (options.ema)
    callbacks.push_back(
        std::make_shared<WeightAverage>(*options.ema, WeightAverage::Options{.buffers = options.ema_buffers}));
  if (options.early_stopping) {
    const std::string flag = "--early-stopping";
    const Read read(*options.early_stopping, kEarlyStopping, flag);
    const EarlyStopping::Options early{read.options().integer("patience"), read.mode(),
                                       read.options().real("min_delta")};
    callbacks.push_back(std::make_shared<EarlyStopping>(options.early_stopping->name, early, flag));
  }
  if (options.monitor) {
    const std::string flag = "--monitor";
    const bool is_default = options.origin("monitor") == Origin::kCode;
    if (options.checkpoint_dir.empty() && !is_default)
      throw UserError(flag + " keeps checkpoints; give --checkpoint-dir=DIR too");
    const Read read(*options.monitor, kMonitor, flag);
    const BestCheckpoints::Options best{options.keep_best, read.mode(), std::string(read.options().text("name"))};
    if (!checkpoints.empty()) {  // else this run writes no files
      callbacks.push_back(std::make_shared<BestCheckpoints>(best_of(checkpoints), options.monitor->name, best, flag));
    }
  }
  return callbacks;
}

}  // namespace cohort
