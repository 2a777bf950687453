#include <algorithm>
#include <limits>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "options/flag_table.hpp"

namespace cohort::host {
namespace {

using std::string_view;
using Printed = std::optional<std::string>;

constexpr const char* kWhere = "Where and how to train";
constexpr const char* kLoop = "Loop";
constexpr const char* kCheckpoints = "Checkpoints";
constexpr const char* kPlugins = "Plugins";
constexpr const char* kOutput = "Configuration and output";
constexpr const char* kOlder = "Older spellings";
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

template <class Set, class Print>
Flag flag(const char* group, const char* name, const char* value, const char* help, Set set, Print print) {
  return {.name = name, .group = group, .value = value, .help = help, .set = set, .print = print};
}

Printed print_number(const std::optional<int64_t>& value) {
  return value ? Printed(literal(*value)) : std::nullopt;
}

/// A whole number; `highest` is one that the member can hold.
template <class Member>
Flag number(const char* group, const char* name, const char* help, Member Options::*member, int64_t lowest,
            int64_t highest = kUnlimited) {
  return flag(
      group, name, "N", help,
      [=](Options& o, Given given) { o.*member = static_cast<Member>(parse_integer(given, lowest, highest)); },
      [=](const Options& o) { return print_number(o.*member); });
}

template <class Value, class Text>
auto print_if_set(std::optional<Value> Options::*member, Text text) {
  return [=](const Options& o) -> Printed { return o.*member ? Printed(text(*(o.*member))) : std::nullopt; };
}

Flag switched(const char* group, const char* name, const char* help, bool Options::*member) {
  Flag made = flag(
      group, name, "", help, [=](Options& o, Given given) { o.*member = parse_bool(given); },
      [=](const Options& o) -> Printed { return literal(o.*member); });
  made.arity = Arity::kOptional;
  made.implied = "true";
  return made;
}

/// One of `texts`, which stand for the member's values from `first` on.
template <class Member>
Flag choice(const char* group, const char* name, const char* value, const char* help, std::vector<std::string> texts,
            Member Options::*member, std::size_t first = 0) {
  return flag(
      group, name, value, help,
      [=](Options& o, Given given) { o.*member = static_cast<Member>(first + parse_choice(given, texts)); },
      [=](const Options& o) -> Printed {
        return literal(string_view(texts.at(static_cast<std::size_t>(o.*member) - first)));
      });
}

Flag limit(const char* name, const char* help, BatchLimit Options::*member) {
  return flag(
      kLoop, name, "N|FRACTION", help, [=](Options& o, Given given) { o.*member = parse_batch_limit(given, 0); },
      [=](const Options& o) -> Printed {
        const BatchLimit& value = o.*member;
        const bool is_all = !value.count && !value.fraction;
        return is_all ? std::nullopt : Printed(literal(value));
      });
}

std::filesystem::path parse_path(Given given) {
  if (given.text.empty()) throw UserError(std::string(given.where) + ": the path is empty; give a file or a folder");
  if (on_one_line(given.text) != given.text) {  // paths appear in messages and logs
    throw UserError(std::string(given.where) + ": the path " + in_quotes(given.text) +
                    " holds a control character; choose another name");
  }
  return std::filesystem::path(given.text);
}

Flag path(const char* group, const char* name, const char* value, const char* help,
          std::filesystem::path Options::*member) {
  return flag(
      group, name, value, help, [=](Options& o, Given given) { o.*member = parse_path(given); },
      [=](const Options& o) -> Printed {
        return (o.*member).empty() ? std::nullopt : Printed(literal(string_view((o.*member).native())));
      });
}

/// A component by spec, or "auto" for the runtime's choice.
Flag spec(const char* name, const char* help, std::optional<Spec> Options::*member) {
  return flag(
      kWhere, name, "SPEC", help,
      [=](Options& o, Given given) {
        o.*member = given.text == "auto" ? std::nullopt : std::optional<Spec>(parse_spec(given.text, given.where));
      },
      [=](const Options& o) -> Printed { return literal(string_view(o.*member ? to_string(*(o.*member)) : "auto")); });
}

/// A metric with options of what watches it.
Flag metric(const char* group, const char* name, const char* value, const char* help,
            std::optional<Spec> Options::*member) {
  return flag(
      group, name, value, help,
      [=](Options& o, Given given) { o.*member = parse_metric_spec(given.text, given.where); },
      print_if_set(member, [](const Spec& spec) { return literal(string_view(to_string(spec))); }));
}

/// Repeatable. `parse` makes an element of what is given, `text` the other way round.
template <class Element, class Parse, class Text>
Flag many(const char* group, const char* name, const char* value, const char* help,
          std::vector<Element> Options::*member, Parse parse, Text text) {
  Flag made = flag(
      group, name, value, help, [=](Options& o, Given given) { (o.*member).push_back(parse(given)); },
      [=](const Options& o) -> Printed {
        std::vector<std::string> texts;
        for (const Element& one : o.*member) texts.push_back(text(one));
        return texts.empty() ? std::nullopt : Printed(literal(texts));
      });
  made.arity = Arity::kMany;
  made.clear = [=](Options& o) { (o.*member).clear(); };
  return made;
}

Flag paths(const char* name, const char* value, const char* help, std::vector<std::filesystem::path> Options::*member) {
  return many(kPlugins, name, value, help, member, parse_path, [](const auto& path) { return path.string(); });
}

std::string parse_accelerator(Given given) {
  if (is_plugin_name(given.text)) return std::string(given.text);
  throw UserError(std::string(given.where) + ": " + in_quotes(given.text) +
                  " is no name of an accelerator; give auto, " + "or a name like cpu");
}

std::string time_text(std::chrono::nanoseconds time) {
  const bool whole = time % std::chrono::seconds(1) == std::chrono::nanoseconds(0);
  return whole ? std::to_string(time / std::chrono::seconds(1)) + "s" : std::to_string(time.count()) + "ns";
}

std::vector<Flag> where_flags() {
  Flag autotune = flag(
      kWhere, "autotune", "FILE",
      "try sizes of buckets and more in the first steps; the best goes to FILE (autotune.toml), for --config",
      [](Options& o, Given given) { o.autotune = parse_path(given); },
      print_if_set(&Options::autotune, [](const auto& file) { return literal(string_view(file.native())); }));
  autotune.arity = Arity::kOptional;
  autotune.implied = "autotune.toml";
  return {
      autotune,
      spec("strategy", "how the job is spread over processes: name[:variant]{,key=value}", &Options::strategy),
      many(
          kWhere, "layer", "SPEC", "a free layer over the strategy; repeatable, the last on top", &Options::layers,
          [](Given given) { return parse_spec(given.text, given.where); },
          [](const Spec& one) { return to_string(one); }),
      flag(
          kWhere, "accelerator", "NAME", "kind of device",
          [](Options& o, Given given) { o.accelerator = parse_accelerator(given); },
          [](const Options& o) -> Printed { return literal(string_view(o.accelerator)); }),
      flag(
          kWhere, "devices", "N|[IDS]|auto", "devices of each node: a count, ids, names of the driver (GPU-...) or all",
          [](Options& o, Given given) { o.devices = parse_devices(given); },
          [](const Options& o) -> Printed {
            return o.devices.kind == Devices::Kind::kDefault ? std::nullopt : Printed(literal(o.devices));
          }),
      number(kWhere, "num-nodes", "machines of the job", &Options::num_nodes, 1, 1'000'000),
      flag(
          kWhere, "precision", "32|16-mixed|bf16-mixed|16-true|bf16-true|64",
          "types that the model computes in, and what its weights are kept in",
          [](Options& o, Given given) { o.precision = parse_precision(given); },
          [](const Options& o) -> Printed { return literal(to_string(o.precision)); }),
      spec("collective", "how ranks exchange tensors; auto follows strategy and devices", &Options::collective),
      flag(
          kWhere, "bucket-size", "SIZE|auto", "gradients are communicated in pieces of this size, for example 25MiB",
          [](Options& o, Given given) {
            o.bucket_size = given.text == "auto" ? std::nullopt : std::optional(parse_size(given.text, given.where));
          },
          [](const Options& o) -> Printed {
            return o.bucket_size ? literal(*o.bucket_size) : literal(string_view("auto"));
          }),
      number(kWhere, "threads", "threads of each rank for computing; default: usable cores / ranks", &Options::threads,
             1, 4096),
  };
}

std::vector<Flag> loop_flags() {
  Flag fast = number(kLoop, "fast-dev-run", "run N batches of each loop and write no files", &Options::fast_dev_run, 0);
  fast.arity = Arity::kOptional;
  fast.implied = "1";
  return {
      number(kLoop, "max-epochs", "stop after this many epochs; -1: no limit", &Options::max_epochs, -1),
      number(kLoop, "max-steps", "stop after this many optimizer steps; -1: no limit", &Options::max_steps, -1),
      flag(
          kLoop, "max-time", "TIME", "stop after this time, for example 2h, 1d or 00:12:00:00 (DD:HH:MM:SS)",
          [](Options& o, Given given) {
            o.max_time = std::chrono::ceil<std::chrono::seconds>(parse_long_time(given.text, given.where));
          },
          print_if_set(&Options::max_time, [](auto time) { return literal(string_view(time_text(time))); })),
      limit("limit-train-batches", "training batches of an epoch; default: all", &Options::limit_train_batches),
      limit("limit-val-batches", "validation batches; default: all", &Options::limit_val_batches),
      limit("limit-test-batches", "test batches; default: all", &Options::limit_test_batches),
      limit("limit-predict-batches", "batches to predict; default: all", &Options::limit_predict_batches),
      flag(
          kLoop, "overfit-batches", "N|FRACTION", "train and validate on the same first batches, without shuffling",
          [](Options& o, Given given) { o.overfit_batches = parse_batch_limit(given, 1); },
          print_if_set(&Options::overfit_batches, [](const auto& limit) { return literal(limit); })),
      flag(
          kLoop, "val-check-interval", "N|FRACTION", "validate after N batches or a fraction of an epoch",
          [](Options& o, Given given) { o.val_check_interval = parse_batch_limit(given, 1); },
          print_if_set(&Options::val_check_interval, [](const auto& limit) { return literal(limit); })),
      number(kLoop, "check-val-every-n-epoch", "validate in every N-th epoch only", &Options::check_val_every_n_epoch,
             1),
      number(kLoop, "num-sanity-val-steps", "validation batches that are tried before training; 0: none, -1: all",
             &Options::num_sanity_val_steps, -1),
      number(kLoop, "log-every-n-steps", "steps between two rows of metrics, in loggers and on the screen",
             &Options::log_every_n_steps, 1),
      metric(kLoop, "early-stopping", "METRIC{,patience=3,mode=min,min_delta=0}",
             "stop when a metric no longer improves", &Options::early_stopping),
      flag(
          kLoop, "seed", "N", "of all random numbers", [](Options& o, Given given) { o.seed = parse_unsigned(given); },
          [](const Options& o) -> Printed { return literal(o.seed); }),
      choice(kLoop, "rank-noise", "apart|alike",
             "ranks draw other random numbers in the model (dropout, noise), or the same ones", {"apart", "alike"},
             &Options::rank_noise),
      switched(kLoop, "deterministic", "the same bits in every run, whatever the collective; may be slower",
               &Options::deterministic),
      switched(kLoop, "barebones", "nothing but the loop: no logs, metrics files or validation", &Options::barebones),
      fast,
  };
}

/// Sets the decay, and whether buffers are averaged: "0.999,buffers=true".
void set_ema(Options& o, Given given) {
  constexpr string_view kBuffers = ",buffers=";
  const size_t end = std::min(given.text.find(','), given.text.size());
  const string_view rest = given.text.substr(end);
  if (!rest.empty() && !rest.starts_with(kBuffers)) {
    throw UserError(std::string(given.where) + ": " + in_quotes(rest.substr(1)) +
                    " is no option of an average; write 0.999 or 0.999,buffers=true");
  }
  o.ema = parse_from_zero({given.text.substr(0, end), given.where});
  o.ema_buffers = !rest.empty() && parse_bool({rest.substr(kBuffers.size()), given.where});
}

std::vector<Flag> step_flags() {
  Flag graph =
      number(kLoop, "graph", "capture a step of a device after N others (3), and replay it", &Options::graph, 1);
  graph.arity = Arity::kOptional;
  graph.implied = "3";
  return {
      number(kLoop, "accumulate-grad-batches", "batches of one optimizer step", &Options::accumulate_grad_batches, 1),
      flag(
          kLoop, "gradient-clip-val", "LIMIT",
          "gradients are limited to this before the optimizer's step; 0: they are not",
          [](Options& o, Given given) { o.gradient_clip_val = parse_from_zero(given); },
          print_if_set(&Options::gradient_clip_val, decimal_text)),
      choice(kLoop, "gradient-clip-algorithm", "norm|value", "limits the norm of all gradients, or each element",
             {"norm", "value"}, &Options::gradient_clip_by_value),
      flag(kLoop, "ema", "DECAY{,buffers=false}",
           "average the weights over steps, for example by 0.999; the average is validated and kept", set_ema,
           [](const Options& o) -> Printed {
             return o.ema ? Printed(literal(string_view(decimal_text(*o.ema) + (o.ema_buffers ? ",buffers=true" : ""))))
                          : std::nullopt;
           }),
      flag(
          kLoop, "track-grad-norm", "2|inf", "log this norm over all gradients of each optimizer, before clipping",
          [](Options& o, Given given) {
            o.track_grad_norm = parse_choice(given, {"2", "inf"}) == 0 ? 2 : std::numeric_limits<double>::infinity();
          },
          print_if_set(&Options::track_grad_norm, [](double p) { return literal(string_view(p == 2 ? "2" : "inf")); })),
      switched(kLoop, "sync-batchnorm", "cohort::SyncBatchNorm takes its statistics over all ranks",
               &Options::sync_batchnorm),
      choice(kLoop, "unused", "track|zero|error",
             "a parameter that no rank's loss depends on has no gradient, has one of zeros, or ends the training",
             {"track", "zero", "error"}, &Options::unused),
      choice(kLoop, "uneven", "stop|join",
             "an epoch ends with the first rank that has no batch left, or with the last one: the others send zeros",
             {"stop", "join"}, &Options::uneven),
      switched(kLoop, "detect-anomaly", "backward stops at a NaN and names the operator; slow",
               &Options::detect_anomaly),
      graph,
  };
}

std::vector<Flag> checkpoint_flags() {
  return {
      path(kCheckpoints, "checkpoint-dir", "DIR",
           "a checkpoint at the end of each epoch and of training, in this folder", &Options::checkpoint_dir),
      path(kCheckpoints, "resume", "DIR|auto",
           "go on from a checkpoint, or from the newest of a folder; auto: of "
           "--checkpoint-dir, if there is one",
           &Options::resume),
      choice(kCheckpoints, "resume-settings", "checkpoint|program",
             "source of the optimizers' settings in a resumed run: learning rate, weight decay and so on",
             {"checkpoint", "program"}, &Options::resume_settings),
      number(kCheckpoints, "checkpoint-every-n-steps", "more checkpoints, after every N optimizer steps",
             &Options::checkpoint_every_n_steps, 1),
      number(kCheckpoints, "keep-checkpoints", "older checkpoints than the newest N are deleted",
             &Options::keep_checkpoints, 1),
      metric(kCheckpoints, "monitor", "METRIC{,mode=min,name=...}",
             "keep the checkpoints with its best values too, in DIR/best; name=e{epoch}-{METRIC:.3f} gives them links",
             &Options::monitor),
      number(kCheckpoints, "keep-best", "how many of these", &Options::keep_best, 1),
  };
}

std::vector<Flag> output_flags() {
  Flag profile = flag(
      kOutput, "profile", "FILE{,steps=50,warmup=5}",
      "the time of each phase of fit, as a table; and a trace of the steps after the first ones, in FILE "
      "(cohort_profile.json)",
      [](Options& o, Given given) { o.profile = parse_file_spec(given.text, given.where); },
      print_if_set(&Options::profile, [](const Spec& spec) { return literal(string_view(to_string(spec))); }));
  profile.arity = Arity::kOptional;
  profile.implied = "cohort_profile.json";
  return {
      path(kOutput, "config", "FILE", "a TOML file with options", &Options::config),
      switched(kOutput, "print-config", "write the merged options as TOML and end", &Options::print_config),
      path(kOutput, "log-dir", "DIR", "a folder for the log of each rank and for metrics", &Options::log_dir),
      many(
          kOutput, "logger", "csv|json|tensorboard|SPEC",
          "what is measured, in a new folder version_N of --log-dir (default: cohort_logs), or by a plugin; "
          "repeatable; "
          "default: csv with --log-dir",
          &Options::loggers, [](Given given) { return parse_spec(given.text, given.where); },
          [](const Spec& one) { return to_string(one); }),
      profile,
      choice(kOutput, "log-level", "LEVEL", "debug, info, warning, error or off",
             {"debug", "info", "warning", "error", "off"}, &Options::log_level,
             static_cast<std::size_t>(LogLevel::kDebug)),
      choice(kOutput, "log-format", "FORMAT", "text, or json for machines", {"text", "json"}, &Options::log_format),
      path(kOutput, "summary-json", "FILE", "rank 0 writes a summary of the run", &Options::summary_json),
      flag(
          kOutput, "timeout", "TIME", "how long a rank waits for the others",
          [](Options& o, Given given) { o.timeout = parse_time(given.text, given.where); },
          [](const Options& o) -> Printed { return literal(string_view(time_text(o.timeout))); }),
      switched(kOutput, "insecure", "ranks of several machines meet without a job secret: their network is trusted",
               &Options::insecure),
      choice(kOutput, "malloc", "MODE", "tuned, or default for the system's thresholds", {"default", "tuned"},
             &Options::tune_malloc),
  };
}

Flag older(const char* name, const char* value, const char* help, const char* stands_for) {
  Flag made = flag(kOlder, name, value, help, nullptr, [](const Options&) -> Printed { return std::nullopt; });
  made.stands_for = stands_for;
  return made;
}

std::vector<Flag> older_flags() {
  Flag gpus = older("gpus", "N|[IDS]|-1", "--devices with --accelerator=gpu", "devices");
  gpus.brings = {{"accelerator", "gpu"}};
  Flag use_amp = older("use-amp", "true|false", "--precision=16-mixed", "precision");
  use_amp.arity = Arity::kOptional;
  use_amp.implied = "true";
  use_amp.translations = {{"true", "16-mixed"}, {"false", "32"}, {"1", "16-mixed"}, {"0", "32"}};
  Flag amp_level = older("amp-level", "O0|O1|O2|O3", "--precision=32, 16-mixed (O1, O2) or 16-true", "precision");
  amp_level.translations = {{"O0", "32"}, {"O1", "16-mixed"}, {"O2", "16-mixed"}, {"O3", "16-true"}};
  return {older("distributed-backend", "SPEC", "--strategy", "strategy"),
          gpus,
          older("nb-gpu-nodes", "N", "--num-nodes", "num-nodes"),
          use_amp,
          amp_level,
          older("process-group-backend", "SPEC", "--collective", "collective")};
}

}  // namespace

std::vector<Flag> common_flags() {
  std::vector<Flag> flags = where_flags();
  for (auto group : {loop_flags, step_flags, checkpoint_flags}) {
    for (Flag& one : group()) flags.push_back(std::move(one));
  }
  flags.push_back(paths("plugin", "FILE", "a plugin file; repeatable", &Options::plugins));
  flags.push_back(paths("plugin-dir", "DIR", "a folder with plugins; repeatable", &Options::plugin_dirs));
  for (auto group : {older_flags, output_flags}) {
    for (Flag& one : group()) flags.push_back(std::move(one));
  }
  return flags;
}

}  // namespace cohort::host
