// The flags of checkpoints, plugins, configuration and output, and the older spellings.
#include <cohort/host/error.hpp>

#include "options/flag_kinds.hpp"

namespace cohort::host {
namespace {

using namespace flags;

std::vector<Flag> checkpoint_flags() {
  return {
      path(kCheckpoints, "checkpoint-dir", "DIR",
           "a checkpoint at the end of each epoch and of training, in this folder", &Options::checkpoint_dir)
          .compared(Across::kGiven,
                    "ranks write checkpoints together; the folder may have another name on another node"),
      path(kCheckpoints, "resume", "DIR|auto",
           "go on from a checkpoint, or from the newest of a folder; auto: of "
           "--checkpoint-dir, if there is one",
           &Options::resume)
          .compared(Across::kGiven,
                    "ranks go on together; where they read is compared later, because a folder may have several names"),
      choice(kCheckpoints, "resume-settings", "checkpoint|program",
             "source of the optimizers' settings in a resumed run: learning rate, weight decay and so on",
             {"checkpoint", "program"}, &Options::resume_settings)
          .compared(Across::kSame, "ranks would resume with other settings of optimizers"),
      number(kCheckpoints, "checkpoint-every-n-steps", "more checkpoints, after every N optimizer steps",
             &Options::checkpoint_every_n_steps, 1)
          .compared(Across::kSame, "ranks write checkpoints together"),
      number(kCheckpoints, "keep-checkpoints", "older checkpoints than the newest N are deleted",
             &Options::keep_checkpoints, 1)
          .compared(Across::kSame, "rank 0's counts; another one would be ignored"),
      metric(kCheckpoints, "monitor", "METRIC{,mode=min,name=...}",
             "keep the checkpoints with its best values too, in DIR/best; name=e{epoch}-{METRIC:.3f} gives them links",
             &Options::monitor)
          .compared(Across::kSame, "ranks write checkpoints together"),
      number(kCheckpoints, "keep-best", "how many of these", &Options::keep_best, 1)
          .compared(Across::kSame, "rank 0's counts; another one would be ignored"),
  };
}

std::vector<Flag> output_flags() {
  return {
      path(kOutput, "config", "FILE", "a TOML file with options", &Options::config)
          .compared(Across::kOwn, "what it says is compared, not where it lies"),
      switched(kOutput, "print-config", "write the merged options as TOML and end", &Options::print_config)
          .compared(Across::kOwn, "ends the program before there are ranks"),
      path(kOutput, "log-dir", "DIR", "a folder for the log of each rank and for metrics", &Options::log_dir)
          .compared(Across::kOwn, "each rank writes its own log"),
      many(kOutput, "logger", "csv|json|tensorboard|SPEC",
           "what is measured, in a new folder version_N of --log-dir (default: cohort_logs), or by a plugin; "
           "repeatable; "
           "default: csv with --log-dir",
           &Options::loggers, from(parse_spec), [](const Spec& one) { return to_string(one); })
          .compared(Across::kOwn, "rank 0 writes what is measured"),
      optional_value(
          one(kOutput, "profile", "FILE{,steps=50,warmup=5}",
              "the time of each phase of fit, as a table; and a trace of the steps after the first ones, in "
              "FILE (cohort_profile.json)",
              &Options::profile, from(parse_file_spec), [](const Spec& file) { return text_literal(to_string(file)); }),
          "cohort_profile.json")
          .compared(Across::kGiven, "ranks compare clocks and gather times together; rank 0 writes the file"),
      choice(kOutput, "log-level", "LEVEL", "debug, info, warning, error or off",
             {"debug", "info", "warning", "error", "off"}, &Options::log_level,
             static_cast<std::size_t>(LogLevel::kDebug))
          .compared(Across::kOwn, "each rank writes its own log"),
      choice(kOutput, "log-format", "FORMAT", "text, or json for machines", {"text", "json"}, &Options::log_format)
          .compared(Across::kOwn, "each rank writes its own log"),
      path(kOutput, "summary-json", "FILE", "rank 0 writes a summary of the run", &Options::summary_json)
          .compared(Across::kGiven, "ranks gather the summary together; rank 0 writes the file"),
      one(kOutput, "timeout", "TIME", "how long a rank waits for the others", &Options::timeout, from(parse_time),
          time_literal)
          .compared(Across::kOwn, "each rank's own patience"),
      switched(kOutput, "insecure", "ranks of several machines meet without a job secret: their network is trusted",
               &Options::insecure)
          .compared(Across::kOwn, "each rank judges the network for itself"),
      choice(kOutput, "malloc", "MODE", "tuned, or default for the system's thresholds", {"default", "tuned"},
             &Options::tune_malloc)
          .compared(Across::kOwn, "memory of the own process"),
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
  Flag use_amp = optional_value(older("use-amp", "true|false", "--precision=16-mixed", "precision"), "true");
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

std::vector<Flag> file_flags() {
  std::vector<Flag> flags = checkpoint_flags();
  flags.push_back(
      paths("plugin", "FILE", "a plugin file; repeatable", &Options::plugins)
          .compared(Across::kOwn, "the contents of plugins are compared when ranks meet, not where they lie"));
  flags.push_back(
      paths("plugin-dir", "DIR", "a folder with plugins; repeatable", &Options::plugin_dirs)
          .compared(Across::kOwn, "the contents of plugins are compared when ranks meet, not where they lie"));
  for (auto group : {older_flags, output_flags}) {
    for (Flag& one : group()) flags.push_back(std::move(one));
  }
  return flags;
}

}  // namespace cohort::host
