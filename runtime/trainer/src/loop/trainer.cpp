#include <cohort/trainer.hpp>

#include <algorithm>
#include <cstdio>

#include <cohort/host/error.hpp>
#include <cohort/host/selection.hpp>
#include <cohort/rank_noise.hpp>
#include <cohort/step_driver.hpp>

#include "callbacks/built_in.hpp"
#include "callbacks/callback_list.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/fit_checkpoints.hpp"
#include "checkpoint/optimizer_state.hpp"
#include "data/batch_source.hpp"
#include "failure/failure.hpp"
#include "failure/hook_place.hpp"
#include "graph/own_stream.hpp"
#include "graph/require_graph.hpp"
#include "loggers/run_loggers.hpp"
#include "loop/agree_on_loop.hpp"
#include "loop/evaluation.hpp"
#include "loop/fit_loop.hpp"
#include "loop/open_data.hpp"
#include "loop/prediction.hpp"
#include "loop/require_join.hpp"
#include "loop/require_pieces.hpp"
#include "metrics/number_text.hpp"
#include "module/model_table.hpp"
#include "module/step_access.hpp"
#include "module/synchronized_layers.hpp"
#include "parts/placement.hpp"
#include "profile/profile.hpp"
#include "report/results_text.hpp"
#include "report/screen.hpp"
#include "settings/limits.hpp"
#include "spawn/forked_loops.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

void check(const Optimizers& optimizers, const Module& module) {
  if (optimizers.size() == 0) throw UserError("configure_optimizers returned no optimizer; return at least one");
  for (size_t i = 0; i < optimizers.size(); ++i) {
    const auto& groups = optimizers[i].param_groups();
    if (std::ranges::any_of(groups, [](const auto& group) { return !group.params().empty(); })) continue;
    throw UserError("optimizer " + std::to_string(i) +
                    " has no parameters; did you forget register_module or register_parameter in module '" +
                    module.name() + "'?");
  }
}

std::string exit_reason(const StopReason& stop, const LoopLimits& limits, uint64_t steps) {
  if (!stop.is_none()) return stop.exit_reason;
  return limits.max_steps && steps >= static_cast<uint64_t>(*limits.max_steps) ? "max_steps" : "completed";
}

void log_stop(Runtime& runtime, const StopReason& stop, uint64_t steps, const std::filesystem::path& checkpoint) {
  if (!runtime.is_first()) return;
  const bool is_an_end = !stop.is_none() && stop.severity != StopReason::Severity::kFailure;
  if (is_an_end) runtime.log().info("Training ends after step " + std::to_string(steps) + ": " + stop.text);
  if (!checkpoint.empty()) runtime.log().info("Last checkpoint: " + shown(checkpoint));
}

void throw_if_abrupt(const StopReason& stop) {
  if (stop.severity == StopReason::Severity::kInterrupt) throw Interrupted{stop.signal};
  if (stop.severity == StopReason::Severity::kFailure) throw StoppedTogether(stop.text);
}

void tell_place(const Runtime& runtime, Module& module) {
  auto& place = detail::StepAccess::place(module);
  place.rank = runtime.rank();
  place.world_size = runtime.world_size();
}

/// Returns what master weights begin with, if the module is trained.
UnroundedWeights set_up(const Runtime& runtime, Module& module, Stage stage) {
  tell_place(runtime, module);
  in_hook({.hook = "setup", .rank = runtime.rank()}, [&] { module.setup(stage); });
  const Precision precision = runtime.options().precision;
  UnroundedWeights unrounded;  // which take the memory of a whole model
  if (stage == Stage::kFit) unrounded = convert_for_training(module, precision);
  if (stage != Stage::kFit) convert(module, precision);
  if (runtime.device().is_cpu()) return unrounded;
  runtime.selection().parts > 1 ? spread(module, runtime.devices()) : module.to(runtime.device());
  return unrounded;
}

// Outside of the loops nothing brings tensors from one device of a model in parts to another.
void tear_down(const Runtime& runtime, Module& module, Stage stage) {
  in_hook({.hook = "teardown", .rank = runtime.rank()}, [&] { module.teardown(stage); });
  if (runtime.selection().parts > 1) module.to(c10::kCPU);
}

/// Runs a pass outside of a fit; the module hears of an exception.
template <class Pass>
auto telling_of_exceptions(Module& module, const Pass& pass) {
  try {
    return pass();
  } catch (const std::exception& error) {
    if (!tells_of_lost_device()) module.on_exception(error);
    throw;
  }
}

/// Begins the count of a fit; a resumed one is told more when the checkpoint has been read.
void plan_steps(const Runtime& runtime, const LoopLimits& limits, Module& module, const std::optional<FitData>& data) {
  tell_place(runtime, module);
  auto& place = detail::StepAccess::place(module);
  place.step = 0;
  place.epoch = 0;
  const auto batches = data ? planned_batches(data->train, runtime.world_size(), limits.train) : std::nullopt;
  place.total_steps = planned_steps(limits, batches);
}

void introduce(Runtime& runtime, const LoopLimits& limits, const Module& module) {
  if (!limits.report || !runtime.is_first()) return;
  if (!limits.notice.empty()) runtime.log().info(limits.notice);
  runtime.log().info(model_table(module));
}

/// A fit in a hook of a fit could neither share its session nor end together with the other ranks.
void check_not_nested(const RunRecord& record) {
  if (record.is_fitting) {
    throw UserError("fit was called in a hook of a running fit; call it when that one has returned");
  }
}

void log_skipped(const Runtime& runtime, const StepDriver& session) {
  const auto scale = session.loss_scale();
  if (!scale || scale->skipped == 0 || !runtime.is_first()) return;
  runtime.log().info(std::to_string(scale->skipped) + " of " + std::to_string(session.steps()) +
                     " steps were skipped, as their gradients were not finite in float16; the loss scale is " +
                     number_text(scale->factor));
}

class Fitting {
 public:
  explicit Fitting(RunRecord& record) : record_(record) { record.is_fitting = true; }
  ~Fitting() { record_.is_fitting = false; }
  Fitting(const Fitting&) = delete;
  Fitting& operator=(const Fitting&) = delete;

 private:
  RunRecord& record_;
};

/// Returns what distinguishes this training from others of the program.
HyperParameters hyper_parameters(const Runtime& runtime, const Module& module, const Loader& train,
                                 const StepDriver& session) {
  const Options& options = runtime.options();
  HyperParameters parameters{{"strategy", host::to_string(runtime.selection().strategy)},
                             {"world_size", runtime.world_size()},
                             {"precision", std::string(to_string(options.precision))},
                             {"seed", options.seed},
                             {"accumulate_grad_batches", options.accumulate_grad_batches}};
  if (!train.stream) parameters.set({"batch_size", train.batch_size});
  const auto names = parameter_names(session);
  const Optimizers& optimizers = session.optimizers();
  for (size_t i = 0; i < optimizers.size(); ++i) {
    const std::string prefix = optimizers.size() == 1 ? "optimizer" : "optimizer-" + std::to_string(i);
    const OptimizerSettings settings = optimizer_settings(optimizers[i], names);
    parameters.set({prefix, settings.type});
    for (const auto& [name, value] : settings.groups.front().options) parameters.set({prefix + "." + name, value});
  }
  for (const auto& [name, value] : options.own) parameters.set({name, value});
  for (const auto& [name, value] : module.hyperparameters()) parameters.set(name, value);
  return parameters;
}

/// Returns what is logged where; without kinds and makers nothing is.
RunLogging logging_of(const Options& options, const std::vector<MakeLogger>& makers) {
  constexpr const char* kDir = "cohort_logs";
  RunLogging logging{.dir = options.log_dir, .kinds = options.loggers, .makers = makers, .parameters = {}};
  if (logging.kinds.empty() && !options.log_dir.empty()) logging.kinds.emplace_back("csv");
  if (logging.dir.empty()) logging.dir = std::filesystem::absolute(kDir);
  return logging;
}

/// Bundles what all steps of one call of fit need.
struct FitCall {
  Runtime& runtime;
  RunRecord& record;
  const std::vector<std::shared_ptr<Callback>>& callbacks;  // of the program and of the module
  const std::vector<MakeLogger>& loggers;
  const LoopLimits& limits;
};

/// Returns the callbacks in the order of their calls: those that write come last, because others log.
std::vector<std::shared_ptr<Callback>> all_callbacks(const FitCall& call, const Optimizers& optimizers,
                                                     std::shared_ptr<FitCheckpoints> checkpoints, RunLogging logging) {
  std::vector<std::shared_ptr<Callback>> all{stop_on_signal(call.runtime)};
  if (call.limits.max_time) all.push_back(time_limit(*call.limits.max_time));
  all.insert(all.end(), call.callbacks.begin(), call.callbacks.end());
  const auto scheduled = callbacks_of_schedules(optimizers, call.callbacks);
  all.insert(all.end(), scheduled.begin(), scheduled.end());
  const auto flagged = callbacks_of_flags(call.runtime.options(), checkpoints->folder());
  all.insert(all.end(), flagged.begin(), flagged.end());
  const bool reports = call.runtime.is_first() && call.limits.report;
  if (reports) all.push_back(screen(call.runtime));
  const bool logs = !logging.kinds.empty() || !logging.makers.empty();
  if (reports && call.limits.files && logs) all.push_back(log_to(std::move(logging), call.record));
  all.push_back(std::move(checkpoints));
  return all;
}

/// Trains the weights by connected ranks; returns what they agreed on. Collective.
StopReason train(const FitCall& call, Module& module, FitData data, const Optimizers& optimizers,
                 UnroundedWeights unrounded) {
  const Fitting fitting(call.record);
  if (call.runtime.options().uneven == UnevenData::kJoin) require_join(call.runtime, module, optimizers);
  std::optional<OwnStream> stream;  // of all that follows
  if (call.runtime.options().graph) {
    require_graph(call.runtime, call.limits, module, optimizers);
    stream.emplace(call.runtime.device());
  }
  if (call.limits.accumulate > 1) call.runtime.require_use(COHORT_USE_ACCUMULATION, call.limits.accumulate);
  if (!module.automatic_optimization()) call.runtime.require_use(COHORT_USE_BY_HAND);
  require_pieces(call.runtime, module, optimizers);
  agree_on_loop(call.runtime, call.limits, data.validation, optimizers, call.callbacks);
  const auto checkpoints = std::make_shared<FitCheckpoints>(call.runtime, call.limits, call.record.fits);
  std::optional<Profile> profile;
  if (const auto settings = profile_settings(call.runtime.options(), call.record.fits)) {
    profile.emplace(call.runtime, *settings);
  }
  Profile* const profile_or_none = profile ? &*profile : nullptr;
  Replicas replicas(call.runtime, module, profile_or_none);
  const std::unique_ptr<StepDriver> driver =
      call.runtime.make_driver(replicas.modules(), optimizers, std::move(unrounded));
  StepDriver& session = *driver;
  session.clip_gradients(call.limits.clip);
  const SynchronizedLayers synchronized(call.runtime, session);
  CheckpointWriter writer(session);
  auto resumed = checkpoints->open(session, writer);
  RunLogging logging = logging_of(call.runtime.options(), call.loggers);
  logging.continues = resumed && checkpoints->continues(*resumed);
  logging.parameters = hyper_parameters(call.runtime, module, data.train, session);
  const CallbackList callbacks(module, all_callbacks(call, optimizers, checkpoints, std::move(logging)),
                               profile_or_none);
  FitLoop loop({call.runtime, call.record, call.limits, replicas, module, session, callbacks, writer, profile_or_none},
               std::move(data));
  const StopReason stop = loop.run(std::move(resumed));
  replicas.log_parts();
  writer.finish();
  session.finish();
  call.record.strategy_metrics = session.strategy_metrics();
  log_skipped(call.runtime, session);
  log_stop(call.runtime, stop, session.steps(), writer.newest());
  call.record.exit_reason = exit_reason(stop, call.limits, session.steps());
  if (profile) profile->report(call.limits.files);
  return stop;
}

void note_weights(const Runtime& runtime, const Module& module, RunRecord& record) {
  if (!runtime.options().summary_json.empty()) record.weights_sha256 = weights_digest(module);
}

}  // namespace

Trainer::Trainer(Runtime& runtime, RunRecord& record, TrainerDefaults defaults)
    : runtime_(runtime), record_(record), defaults_(std::move(defaults)) {}

Metrics Trainer::fit(Module& module, DataModule& data) {
  check_not_nested(record_);
  const LoopLimits limits = resolve_limits(runtime_.options(), defaults_);
  prepare_once(runtime_, data);
  UnroundedWeights unrounded = set_up(runtime_, module, Stage::kFit);
  // Data is not opened in a process that forks its ranks: threads that it starts would be missing in them.
  std::optional<FitData> opened;
  const auto open = [&] { return open_fit_data(data, limits, runtime_.rank()); };
  if (runtime_.is_connected()) opened = open();
  plan_steps(runtime_, limits, module, opened);
  if (runtime_.is_connected()) introduce(runtime_, limits, module);
  const auto in_hook_of_fit = [&](const char* hook, const auto& run) {
    return in_hook({.hook = hook, .rank = runtime_.rank()}, run);
  };
  in_hook_of_fit("on_fit_start", [&] { module.on_fit_start(); });
  const Optimizers optimizers = in_hook_of_fit("configure_optimizers", [&] { return module.configure_optimizers(); });
  check(optimizers, module);
  auto given = defaults_.callbacks;
  const auto own = in_hook_of_fit("configure_callbacks", [&] { return module.configure_callbacks(); });
  given.insert(given.end(), own.begin(), own.end());
  const CallbackList callbacks(module, given);
  ++record_.fits;
  const auto train_here = [&] {
    return train({runtime_, record_, given, defaults_.loggers, limits}, module, opened ? *opened : open(), optimizers,
                 std::move(unrounded));
  };
  const auto train_in_fork = [&] {
    tell_place(runtime_, module);
    introduce(runtime_, limits, module);
    const StopReason stop = train_here();
    note_weights(runtime_, module, record_);
    return stop;
  };
  const StopReason stop = runtime_.is_connected()
                              ? train_here()
                              : fit_in_forks({runtime_, record_, module, optimizers, callbacks}, train_in_fork);
  seed_program(runtime_, {static_cast<uint64_t>(record_.fits)});
  in_hook_of_fit("on_fit_end", [&] { module.on_fit_end(); });
  tear_down(runtime_, module, Stage::kFit);
  if (runtime_.is_connected()) note_weights(runtime_, module, record_);
  throw_if_abrupt(stop);
  return record_.metrics;
}

Metrics Trainer::validate(Module& module, DataModule& data) {
  const Metrics means = evaluate(module, data, Stage::kValidate);
  print_results("Validation metric", means);
  return means;
}

Metrics Trainer::test(Module& module, DataModule& data) {
  const Metrics means = evaluate(module, data, Stage::kTest);
  print_results("Test metric", means);
  return means;
}

Value Trainer::predict(Module& module, DataModule& data) {
  return predict(module, data, nullptr);
}

void Trainer::predict(Module& module, DataModule& data, PredictionWriter& writer) {
  predict(module, data, &writer);
}

Value Trainer::predict(Module& module, DataModule& data, PredictionWriter* writer) {
  prepare_once(runtime_, data);
  set_up(runtime_, module, Stage::kPredict);
  const BatchLimit limit = resolve_limits(runtime_.options(), defaults_).predict;
  const auto predict_here = [&] {
    tell_place(runtime_, module);
    return telling_of_exceptions(module, [&] {
      if (writer) prepare_writer(runtime_, *writer);
      Replicas replicas(runtime_, module);
      const Loader loader = open_prediction_data(data, runtime_.rank());
      SafetensorsFile own;
      if (writer) {
        predict_into(*writer, runtime_, replicas, loader, limit);
      } else {
        own = predict_own(runtime_, replicas, loader, limit);
      }
      in_hook({.hook = "on_predict_end", .rank = runtime_.rank()}, [&] { module.on_predict_end(); });
      return own;
    });
  };
  Value outputs = runtime_.is_connected()
                      ? merge_predictions(gather_at_first(runtime_, predict_here()))
                      : merge_predictions(predict_in_forks({runtime_, record_, module}, predict_here));
  tear_down(runtime_, module, Stage::kPredict);
  return outputs;
}

void Trainer::print_results(const std::string& title, const Metrics& means) const {
  if (!runtime_.is_first()) return;
  if (means.empty()) {
    return runtime_.log().warning("There is no " + title +
                                  ": the step of the module has logged no value; call log(\"loss\", loss) in it");
  }
  std::fputs(results_table(title, means).c_str(), stdout);
  std::fflush(stdout);
}

Metrics Trainer::evaluate(Module& module, DataModule& data, Stage stage) {
  const LoopLimits limits = resolve_limits(runtime_.options(), defaults_);
  prepare_once(runtime_, data);
  set_up(runtime_, module, stage);
  const auto evaluate_here = [&] {
    tell_place(runtime_, module);
    const bool tests = stage == Stage::kTest;
    const Metrics means = telling_of_exceptions(module, [&] {
      const EvaluationPass pass{.what = tests ? Replicas::kTest : Replicas::kValidation,
                                .loaders = open_evaluation_data(data, stage, runtime_.rank()),
                                .limit = tests ? limits.test : limits.validation,
                                .name = tests ? "test data" : "validation data"};
      Replicas replicas(runtime_, module);
      return cohort::evaluate(runtime_, replicas, pass).means;
    });
    for (const auto& [name, value] : means) record_.metrics[name] = value;
    return means;
  };
  const Metrics means =
      runtime_.is_connected() ? evaluate_here() : evaluate_in_forks({runtime_, record_, module}, evaluate_here);
  tear_down(runtime_, module, stage);
  return means;
}

}  // namespace cohort
