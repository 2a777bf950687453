// Checks a job and prepares what all job files have in common.
//
// The program's arguments become words of a shell. In an array each task has folders of its own: the values of
// --checkpoint-dir and --log-dir get /trial-INDEX. A job that is queued again is given --resume=auto.
#include "job_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
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
constexpr std::array<std::string_view, 2> kFolderFlags{"checkpoint-dir", "log-dir"};

/// A flag among the arguments of the program.
struct FoundFlag {
  std::size_t index;  ///< of the word that ends with the value
  std::string value;
};

/// Returns whether `word` is --NAME, where '-' and '_' are equal.
bool is_flag(std::string_view word, std::string_view name) {
  if (!word.starts_with("--")) return false;
  return std::ranges::equal(word.substr(2), name,
                            [](char one, char other) { return (one == '_' ? '-' : one) == other; });
}

std::optional<FoundFlag> find_flag(const std::vector<std::string>& command, std::string_view name) {
  for (std::size_t i = 1; i < command.size() && command[i] != "--"; ++i) {
    const std::size_t end = command[i].find('=');
    if (!is_flag(std::string_view(command[i]).substr(0, end), name)) continue;
    if (end != std::string::npos) return FoundFlag{i, command[i].substr(end + 1)};
    if (i + 1 < command.size()) return FoundFlag{i + 1, command[i + 1]};
  }
  return std::nullopt;
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

std::vector<std::string> words_of(const BatchJob& job, const std::string& index_of_trial) {
  std::vector<std::string> words;
  for (const std::string& argument : job.command) words.push_back(shell_word(argument, "the argument"));
  if (index_of_trial.empty()) return words;
  for (const std::string_view name : kFolderFlags) {
    if (const auto flag = find_flag(job.command, name)) words[flag->index] += "/trial-\"$" + index_of_trial + "\"";
  }
  return words;
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
    if (!find_flag(job.command, flag.name)) continue;
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
  plan.words = words_of(job, plan.array.empty() ? "" : index);
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
