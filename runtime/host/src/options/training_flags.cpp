// The flags of devices, strategy, loop and step.
#include <algorithm>
#include <limits>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "options/flag_kinds.hpp"

namespace cohort::host {
namespace {

using namespace flags;
using std::string_view;

std::string parse_accelerator(Given given) {
  if (is_plugin_name(given.text)) return std::string(given.text);
  throw UserError(std::string(given.where) + ": " + in_quotes(given.text) +
                  " is no name of an accelerator; give auto, " + "or a name like cpu");
}

BatchLimit parse_some_batches(Given given) {
  return parse_batch_limit(given, 1);
}

std::string batches_literal(const BatchLimit& limit) {
  return literal(limit);
}

std::vector<Flag> where_flags() {
  return {
      optional_value(
          one(kWhere, "autotune", "FILE",
              "try sizes of buckets and more in the first steps; the best goes to FILE (autotune.toml), for --config",
              &Options::autotune, parse_path, [](const auto& file) { return text_literal(file.native()); }),
          "autotune.toml")
          .compared(Across::kGiven, "ranks try ways to communicate together; rank 0 writes the file"),
      spec("strategy", "how the job is spread over processes: name[:variant]{,key=value}", &Options::strategy)
          .compared(Across::kAsUsed, "the strategy that was chosen is compared when ranks meet"),
      many(kWhere, "layer", "SPEC", "a free layer over the strategy; repeatable, the last on top", &Options::layers,
           from(parse_spec), [](const Spec& layer) { return to_string(layer); })
          .compared(Across::kAsUsed, "compared when ranks meet"),
      one(kWhere, "accelerator", "NAME", "kind of device", &Options::accelerator, parse_accelerator, text_literal)
          .compared(Across::kAsUsed, "its plugin is compared when ranks meet"),
      one(kWhere, "devices", "N|[IDS]|auto", "devices of each node: a count, ids, names of the driver (GPU-...) or all",
          &Options::devices, parse_devices,
          [](const Devices& devices) -> Printed {
            return devices.kind == Devices::Kind::kDefault ? std::nullopt : Printed(literal(devices));
          })
          .compared(Across::kOwn, "nodes may number their devices differently"),
      number(kWhere, "num-nodes", "machines of the job", &Options::num_nodes, 1, 1'000'000)
          .compared(Across::kAsUsed, "the number of nodes is compared when ranks meet"),
      one(kWhere, "precision", "32|16-mixed|bf16-mixed|16-true|bf16-true|64",
          "types that the model computes in, and what its weights are kept in", &Options::precision, parse_precision,
          [](Precision precision) { return literal(to_string(precision)); })
          .compared(Across::kSame, "ranks would average gradients of other weights"),
      spec("collective", "how ranks exchange tensors; auto follows strategy and devices", &Options::collective)
          .compared(Across::kAsUsed, "the collective that was chosen is compared when ranks meet"),
      flag(
          kWhere, "bucket-size", "SIZE|auto", "gradients are communicated in pieces of this size, for example 25MiB",
          [](Options& o, Given given) {
            o.bucket_size = given.text == "auto" ? std::nullopt : std::optional(parse_size(given.text, given.where));
          },
          [](const Options& o) -> Printed { return o.bucket_size ? literal(*o.bucket_size) : text_literal("auto"); })
          .compared(Across::kAsUsed, "compared when ranks meet"),
      number(kWhere, "threads", "threads of each rank for computing; default: usable cores / ranks", &Options::threads,
             1, 4096)
          .compared(Across::kOwn, "nodes may have different numbers of cores"),
  };
}

std::vector<Flag> loop_flags() {
  return {
      number(kLoop, "max-epochs", "stop after this many epochs; -1: no limit", &Options::max_epochs, -1)
          .compared(Across::kSame, "ranks would leave the loop at different steps"),
      number(kLoop, "max-steps", "stop after this many optimizer steps; -1: no limit", &Options::max_steps, -1)
          .compared(Across::kSame, "ranks would leave the loop at different steps"),
      one(
          kLoop, "max-time", "TIME", "stop after this time, for example 2h, 1d or 00:12:00:00 (DD:HH:MM:SS)",
          &Options::max_time,
          [](Given given) { return std::chrono::ceil<std::chrono::seconds>(parse_long_time(given.text, given.where)); },
          time_literal)
          .compared(Across::kSame, "rank 0's counts; another one would be ignored"),
      limit("limit-train-batches", "training batches of an epoch; default: all", &Options::limit_train_batches)
          .compared(Across::kSame, "ranks would leave the epoch at different steps"),
      limit("limit-val-batches", "validation batches; default: all", &Options::limit_val_batches)
          .compared(Across::kSame, "the means over all ranks would be of different shares"),
      limit("limit-test-batches", "test batches; default: all", &Options::limit_test_batches)
          .compared(Across::kSame, "the means over all ranks would be of different shares"),
      limit("limit-predict-batches", "batches to predict; default: all", &Options::limit_predict_batches)
          .compared(Across::kSame, "the outputs would have gaps"),
      one(kLoop, "overfit-batches", "N|FRACTION", "train and validate on the same first batches, without shuffling",
          &Options::overfit_batches, parse_some_batches, batches_literal)
          .compared(Across::kSame, "ranks would leave the epoch at different steps"),
      one(kLoop, "val-check-interval", "N|FRACTION", "validate after N batches or a fraction of an epoch",
          &Options::val_check_interval, parse_some_batches, batches_literal)
          .compared(Across::kSame, "ranks would validate at different steps"),
      number(kLoop, "check-val-every-n-epoch", "validate in every N-th epoch only", &Options::check_val_every_n_epoch,
             1)
          .compared(Across::kSame, "ranks would validate in different epochs"),
      number(kLoop, "num-sanity-val-steps", "validation batches that are tried before training; 0: none, -1: all",
             &Options::num_sanity_val_steps, -1)
          .compared(Across::kSame, "ranks validate together before they train"),
      number(kLoop, "log-every-n-steps", "steps between two rows of metrics, in loggers and on the screen",
             &Options::log_every_n_steps, 1)
          .compared(Across::kSame, "without gradients ranks vote at these steps"),
      metric(kLoop, "early-stopping", "METRIC{,patience=3,mode=min,min_delta=0}",
             "stop when a metric no longer improves", &Options::early_stopping)
          .compared(Across::kSame, "ranks would leave the loop at different steps"),
      one(kLoop, "seed", "N", "of all random numbers", &Options::seed, parse_unsigned,
          [](uint64_t seed) { return literal(seed); })
          .compared(Across::kSame, "ranks would shuffle differently, and see samples twice or never"),
      choice(kLoop, "rank-noise", "apart|alike",
             "ranks draw other random numbers in the model (dropout, noise), or the same ones", {"apart", "alike"},
             &Options::rank_noise)
          .compared(Across::kSame, "some ranks would draw the same random numbers"),
      switched(kLoop, "deterministic", "the same bits in every run, whatever the collective; may be slower",
               &Options::deterministic)
          .compared(Across::kSame, "ranks would add up in different orders"),
      switched(kLoop, "barebones", "nothing but the loop: no logs, metrics files or validation", &Options::barebones)
          .compared(Across::kSame, "it turns validation off, which ranks do together"),
      optional_value(
          number(kLoop, "fast-dev-run", "run N batches of each loop and write no files", &Options::fast_dev_run, 0),
          "1")
          .compared(Across::kSame, "ranks would leave the loop at different steps"),
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
  return {
      number(kLoop, "accumulate-grad-batches", "batches of one optimizer step", &Options::accumulate_grad_batches, 1)
          .compared(Across::kSame, "ranks would communicate at different batches"),
      one(kLoop, "pieces", "N|auto",
          "pieces that a batch is trained in, for less memory; its gradients are the same; auto: as few as fit",
          &Options::pieces, parse_pieces,
          [](int64_t pieces) -> Printed { return pieces == 0 ? text_literal("auto") : literal(pieces); })
          .compared(Across::kSame, "a training_step that communicates would run more often on some ranks"),
      one(kLoop, "gradient-clip-val", "LIMIT",
          "gradients are limited to this before the optimizer's step; 0: they are not", &Options::gradient_clip_val,
          parse_from_zero, decimal_text)
          .compared(Across::kSame, "ranks would take different steps"),
      choice(kLoop, "gradient-clip-algorithm", "norm|value", "limits the norm of all gradients, or each element",
             {"norm", "value"}, &Options::gradient_clip_by_value)
          .compared(Across::kSame, "ranks would take different steps"),
      flag(kLoop, "ema", "DECAY{,buffers=false}",
           "average the weights over steps, for example by 0.999; the average is validated and kept", set_ema,
           [](const Options& o) -> Printed {
             return o.ema ? Printed(text_literal(decimal_text(*o.ema) + (o.ema_buffers ? ",buffers=true" : "")))
                          : std::nullopt;
           })
          .compared(Across::kSame, "ranks would validate different weights"),
      one(
          kLoop, "track-grad-norm", "2|inf", "log this norm over all gradients of each optimizer, before clipping",
          &Options::track_grad_norm,
          [](Given given) {
            return parse_choice(given, {"2", "inf"}) == 0 ? 2 : std::numeric_limits<double>::infinity();
          },
          [](double p) { return text_literal(p == 2 ? "2" : "inf"); })
          .compared(Across::kSame, "where ranks own parameters they put their norms together"),
      switched(kLoop, "sync-batchnorm", "cohort::SyncBatchNorm takes its statistics over all ranks",
               &Options::sync_batchnorm)
          .compared(Across::kSame, "ranks would wait for statistics of the others"),
      choice(kLoop, "unused", "track|zero|error",
             "a parameter that no rank's loss depends on has no gradient, has one of zeros, or ends the training",
             {"track", "zero", "error"}, &Options::unused)
          .compared(Across::kSame, "ranks would take different steps"),
      choice(kLoop, "uneven", "stop|join",
             "an epoch ends with the first rank that has no batch left, or with the last one: the others send zeros",
             {"stop", "join"}, &Options::uneven)
          .compared(Across::kSame, "ranks would leave the epoch at different steps"),
      switched(kLoop, "detect-anomaly", "backward stops at a NaN and names the operator; slow",
               &Options::detect_anomaly)
          .compared(Across::kOwn, "each rank watches its own backward"),
      optional_value(
          number(kLoop, "graph", "capture a step of a device after N others (3), and replay it", &Options::graph, 1),
          "3")
          .compared(Across::kSame, "ranks would communicate at different moments of a step"),
  };
}

}  // namespace

std::vector<Flag> training_flags() {
  std::vector<Flag> flags = where_flags();
  for (auto group : {loop_flags, step_flags}) {
    for (Flag& one : group()) flags.push_back(std::move(one));
  }
  return flags;
}

}  // namespace cohort::host
