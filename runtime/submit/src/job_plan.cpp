// Checks a job and prepares what all job files have in common.
//
// The program's arguments become words of a shell. In an array each task has folders and files of its own: "ckpt" of
// --checkpoint-dir becomes "ckpt/trial-INDEX", "s.json" of --summary-json "s-trial-INDEX.json". A job that is queued
// again is given --resume=auto.
#include "job_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string_view>

#include <cohort/host/accelerator_names.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "shell_text.hpp"
#include "trials.hpp"

namespace cohort {
namespace {

constexpr int kMost = 1'000'000;

/// A flag with which the program writes to a folder or a file.
struct OutputFlag {
  std::string_view name;
  bool is_folder = false;
  std::string_view implied = {};  ///< the file if no value is given; empty: there has to be one
};
constexpr std::array<OutputFlag, 5> kOutputs{{{"checkpoint-dir", true},
                                              {"log-dir", true},
                                              {"summary-json"},
                                              {"profile", false, "cohort_profile.json"},
                                              {"autotune", false, "autotune.toml"}}};

/// A flag among the arguments of the program.
struct FoundFlag {
  std::size_t index;   ///< of the word that ends with the value
  std::string before;  ///< in that word
  std::string value;
};

std::optional<FoundFlag> find_flag(const std::vector<std::string>& command, const std::string& name,
                                   std::string_view implied = {}) {
  for (std::size_t i = 1; i < command.size() && command[i] != "--"; ++i) {
    const std::size_t end = command[i].find('=');
    const std::string flag = command[i].substr(0, end);
    if (!flag.starts_with("--") || flag_key(flag.substr(2)) != flag_key(name)) continue;
    if (end != std::string::npos) return FoundFlag{i, flag + "=", command[i].substr(end + 1)};
    const bool has_value = i + 1 < command.size() && (implied.empty() || !command[i + 1].starts_with('-'));
    if (!has_value && !implied.empty()) return FoundFlag{i, flag + "=", std::string(implied)};
    if (has_value) return FoundFlag{i + 1, "", command[i + 1]};
  }
  return std::nullopt;
}

std::optional<FoundFlag> find_output(const std::vector<std::string>& command, const OutputFlag& output) {
  auto found = find_flag(command, std::string(output.name), output.implied);
  if (!found || !found->value.empty()) return found;
  throw UserError("submit: --" + std::string(output.name) + "= names no " + (output.is_folder ? "folder" : "file") +
                  "; give one, or leave the flag out");
}

void check_count(int count, const char* what) {
  if (count >= 1 && count <= kMost) return;
  throw UserError("submit: " + std::to_string(count) + " " + what + " are no job; give 1 to " + std::to_string(kMost));
}

void check_name(const std::string& name) {
  constexpr std::string_view kOthers = "._-+";
  const auto fits = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != std::string_view::npos;
  };
  if (!name.empty() && name.size() <= 100 && name.front() != '-' && name.front() != '.' &&
      std::ranges::all_of(name, fits)) {
    return;
  }
  throw UserError("submit: a job cannot be called " + host::in_quotes(name) +
                  "; give --name letters, digits, '.', '_', '+' and '-'");
}

void check_time(const BatchJob& job) {
  using namespace std::chrono_literals;
  constexpr std::chrono::hours kLongest{24 * 3650};
  if (job.time_limit < 0s || job.time_limit > kLongest || job.stop_before < 0s || job.stop_before > 18h) {
    throw UserError(
        "submit: a time limit is at most ten years, and ranks are told to stop at most 18 hours before it; "
        "correct --time or --stop-before");
  }
}

/// Returns why a job that should be queued again is not.
std::string objection_to_requeue(const BatchJob& job) {
  if (!job.requeue) return {};
  if (!find_flag(job.command, "checkpoint-dir")) {
    return "The job is not queued again if it is stopped, since the program writes no checkpoints: give it "
           "--checkpoint-dir=DIR, or leave this sentence out with --no-requeue";
  }
  const auto resume = find_flag(job.command, "resume");
  if (!resume || resume->value == "auto") return {};
  return "The job is not queued again if it is stopped, since it would go on from " + host::in_quotes(resume->value) +
         " each time: copy that checkpoint into the folder of --checkpoint-dir and give --resume=auto";
}

/// Returns the value as a word of a shell, with the number of the task if there is one.
std::string word_of_output(const OutputFlag& output, const std::string& value, const std::string& index_of_trial) {
  if (index_of_trial.empty()) return shell_word(value, "the argument");
  const std::string trial = "trial-\"$" + index_of_trial + "\"";
  if (output.is_folder) return shell_word(value, "the argument") + "/" + trial;
  const std::size_t end_of_file = std::min(value.find(','), value.size());  // options come behind it
  const std::size_t name = value.find_last_of('/', end_of_file) + 1;
  const std::size_t point = value.find_last_of('.', end_of_file);
  const std::size_t ending = point != std::string::npos && point > name ? point : end_of_file;
  const std::string rest = value.substr(ending);
  return shell_word(value.substr(0, ending), "the argument") + "-" + trial +
         (rest.empty() ? "" : shell_word(rest, "the argument"));
}

std::vector<std::string> words_of(const BatchJob& job, const std::string& index_of_trial) {
  std::vector<std::string> words;
  for (const std::string& argument : job.command) words.push_back(shell_word(argument, "the argument"));
  for (const OutputFlag& output : kOutputs) {
    const auto flag = find_output(job.command, output);
    if (!flag || index_of_trial.empty()) continue;
    const std::string before = flag->before.empty() ? "" : shell_word(flag->before, "the argument");
    words[flag->index] = before + word_of_output(output, flag->value, index_of_trial);
  }
  return words;
}

/// Throws UserError if the file of --config names an output: all tasks would write to it.
void check_config(const BatchJob& job) {
  const auto config = find_flag(job.command, "config");
  std::ifstream file(config ? config->value : "");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('[')) break;  // tables are of strategies and the like
    const std::string key = flag_key(line.substr(0, line.find_first_of(" \t=")));
    const auto output = std::ranges::find(kOutputs, key, &OutputFlag::name);
    if (output == kOutputs.end() || find_flag(job.command, key, "given")) continue;
    throw UserError("submit: all tasks of the array would write to the " + key + " that " +
                    host::in_quotes(config->value) + " names; give --" + key +
                    " behind the program, and each task has its own");
  }
}

void check_array(const std::string& array) {
  constexpr std::string_view kAllowed = "0123456789,-:%";
  const bool fits = std::ranges::all_of(array, [&](char c) { return kAllowed.find(c) != std::string_view::npos; });
  if (fits && (array.empty() || (array.front() >= '0' && array.front() <= '9'))) return;
  throw UserError("submit: --array=" + host::on_one_line(array) +
                  " is no list of indices; write it like 0-9, 1,3,5 or 0-9%2");
}

void check_grid(const BatchJob& job) {
  if (!job.grid.empty() && !job.array.empty()) {
    throw UserError("submit: --grid makes an array of its own; leave --array out, or --grid");
  }
  for (const GridFlag& flag : job.grid) {
    if (!find_flag(job.command, flag.name, "given")) continue;
    throw UserError("submit: --" + flag.name + " stands in the grid and among the program's arguments; leave one out");
  }
}

}  // namespace

std::string name_of(const BatchJob& job) {
  if (!job.name.empty() || job.command.empty()) return job.name;
  return std::filesystem::path(job.command[0]).filename();
}

JobPlan plan_job(const BatchJob& job, const std::string& index) {
  if (job.command.empty() || job.command[0].empty()) {
    throw UserError("submit: the program is missing; name the one that the job runs behind the options");
  }
  check_count(job.nodes, "nodes");
  check_count(job.devices, "devices");
  check_name(name_of(job));
  check_time(job);
  check_array(job.array);
  check_grid(job);
  JobPlan plan;
  plan.name = name_of(job);
  const auto accelerator = find_flag(job.command, "accelerator");
  plan.uses_gpus = !accelerator || !host::needs_no_device(accelerator->value);
  plan.trials = trials_of(job.grid);
  plan.array = job.grid.empty() ? job.array : "0-" + std::to_string(plan.trials.size() - 1);
  plan.why_not_requeued = objection_to_requeue(job);
  plan.is_requeued = job.requeue && plan.why_not_requeued.empty();
  const std::string index_of_trial = plan.array.empty() ? "" : index;
  if (!plan.array.empty()) check_config(job);
  plan.words = words_of(job, index_of_trial);
  if (plan.is_requeued) {
    const OutputFlag& output = kOutputs.front();
    plan.checkpoints = word_of_output(output, find_output(job.command, output)->value, index_of_trial);
  }
  if (!job.grid.empty()) plan.words.emplace_back("\"${trial[@]}\"");
  if (plan.is_requeued && !find_flag(job.command, "resume")) plan.words.emplace_back("--resume=auto");
  return plan;
}

std::vector<DirectiveLine> merge_directives(std::vector<DirectiveLine> own, const std::vector<DirectiveLine>& users) {
  const auto is_replaced = [&](const DirectiveLine& line) {
    return std::ranges::any_of(users, [&](const DirectiveLine& given) { return given.key == line.key; });
  };
  std::erase_if(own, is_replaced);
  own.insert(own.end(), users.begin(), users.end());
  return own;
}

std::string directives_text(const std::vector<DirectiveLine>& lines, const std::string& prefix) {
  std::string text;
  for (const DirectiveLine& line : lines) {
    if (!line.comment.empty()) text += "# " + line.comment + "\n";
    text += prefix + line.text + "\n";
  }
  return text;
}

std::string setup_text(const BatchJob& job) {
  std::string text;
  for (const std::string& line : job.setup) text += shell_line(line, "the command") + "\n";
  return text.empty() ? text : text + "\n";
}

std::string trials_text(const JobPlan& plan, const std::string& index) {
  if (plan.trials.empty()) return {};
  std::string text = "case \"$" + index + "\" in\n";
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    text += std::to_string(i) + ") trial=(" + plan.trials[i] + ") ;;\n";
  }
  return text + "*) echo \"task '$" + index + "' is none of the grid's; hand this file in as the array " + plan.array +
         "\" >&2; exit 2 ;;\nesac\n\n";
}

std::string time_text(std::chrono::seconds time, bool with_days) {
  const auto seconds = time.count();
  const auto days = with_days ? seconds / 86400 : 0;
  const auto rest = seconds - days * 86400;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%02lld:%02lld:%02lld", static_cast<long long>(rest / 3600),
                static_cast<long long>(rest / 60 % 60), static_cast<long long>(rest % 60));
  return (days > 0 ? std::to_string(days) + "-" : "") + text.data();
}

std::string directive_value(const std::string& text, const std::string& what) {
  shell_line(text, what);
  if (text.find_first_of("\"'\\`$") != std::string::npos) {
    throw UserError(
        "submit: " + what + " " + host::in_quotes(text) +
        " holds a quote, a backslash or a dollar sign, which schedulers read in ways of their own; leave it out");
  }
  return text.find_first_of(" #") == std::string::npos ? text : "\"" + text + "\"";
}

}  // namespace cohort
