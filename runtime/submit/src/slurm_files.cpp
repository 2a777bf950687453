// The job file of SLURM: a shell script with directives, whose tasks are the ranks.
//
// SLURM sends SIGUSR1 to the ranks some time before the time limit; they write a checkpoint and end with 138. The
// script then queues the job again, after srun has ended: nothing that belongs to the job runs any more, so nothing is
// cut off. It does so only if a checkpoint was written, because a job without one would begin anew each time, without
// end. A preempted job that ends within its time of grace would not be queued again by SLURM: the script does that,
// too.
// --kill-on-bad-exit=0, since a site may have set that the first rank that leaves has the others killed.
#include <algorithm>
#include <cstdint>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "job_files.hpp"
#include "job_plan.hpp"
#include "shell_text.hpp"

namespace cohort {
namespace {

constexpr const char* kSlurmIndex = "SLURM_ARRAY_TASK_ID";

DirectiveLine line_of(const JobDirective& directive) {
  const std::string& name = directive.name;
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-'; };
  if (name.empty() || name.front() == '-' || !std::ranges::all_of(name, fits)) {
    throw UserError(
        "submit: " + host::in_quotes(name) +
        " is no name of a directive; write NAME=VALUE, as in --directive='ntasks-per-node=8 # 1 task per gpu'");
  }
  const std::string value = directive_value(directive.value, "the directive's value");
  const bool is_short = name.size() == 1;
  const std::string text = (is_short ? "-" : "--") + name + (value.empty() ? "" : (is_short ? " " : "=") + value);
  return {name, text, shell_line(directive.comment, "the comment")};
}

/// Throws UserError where the user's directive says another number than the job.
void check_number(const std::vector<DirectiveLine>& users, const std::string& key, int64_t number, const char* flag) {
  for (const DirectiveLine& line : users) {
    if (line.key != key || line.text == "--" + key + "=" + std::to_string(number)) continue;
    throw UserError("submit: the directive " + host::in_quotes(line.text) + " contradicts --" + flag + "=" +
                    std::to_string(number) + ", as there is one task for each device; correct one of them");
  }
}

std::vector<DirectiveLine> users_lines(const BatchJob& job) {
  std::vector<DirectiveLine> lines;
  for (const JobDirective& directive : job.directives) lines.push_back(line_of(directive));
  check_number(lines, "ntasks-per-node", job.devices, "devices");
  check_number(lines, "ntasks", int64_t{job.nodes} * job.devices, "nodes x --devices");
  check_number(lines, "nodes", job.nodes, "nodes");
  return lines;
}

void check_time_to_train(const BatchJob& job) {
  if (job.time_limit.count() == 0 || job.time_limit > job.stop_before) return;
  throw UserError("submit: ranks are told to stop " + std::to_string(job.stop_before.count()) +
                  " s before a time limit of " + std::to_string(job.time_limit.count()) +
                  " s, which leaves no time to train; give a longer --time or a shorter --stop-before");
}

bool asks_for_gpus(const BatchJob& job) {
  return std::ranges::any_of(job.directives, [](const JobDirective& line) { return line.name.starts_with("gpus"); });
}

std::vector<DirectiveLine> own_lines(const BatchJob& job, const JobPlan& plan) {
  std::vector<DirectiveLine> lines;
  const auto add = [&](const std::string& key, const std::string& value) {
    lines.push_back({key, "--" + key + (value.empty() ? "" : "=" + value)});
  };
  const std::string output = plan.name + (plan.array.empty() ? "-%j.log" : "-%A_%a.log");
  add("job-name", plan.name);
  add("nodes", std::to_string(job.nodes));
  add("ntasks-per-node", std::to_string(job.devices));
  if (plan.uses_gpus && !asks_for_gpus(job)) add("gres", "gpu:" + std::to_string(job.devices));
  if (job.time_limit.count() > 0) add("time", time_text(job.time_limit, true));
  if (!job.partition.empty()) add("partition", directive_value(job.partition, "the partition"));
  if (!plan.array.empty()) add("array", plan.array);
  add("output", directive_value((job.log_dir / output).string(), "the folder"));
  add("open-mode", "append");
  if (!plan.is_requeued) return lines;
  check_time_to_train(job);
  add("signal", "USR1@" + std::to_string(job.stop_before.count()));
  add("requeue", "");
  return lines;
}

/// Commands may lead to another folder, so where the secret lies is said before them.
std::string folder_text(const BatchJob& job) {
  if (job.nodes == 1) return {};
  const std::string folder = shell_word(job.log_dir.string(), "the folder");
  return "log_dir=" + (job.log_dir.is_absolute() ? folder : "$PWD/" + folder) + "\n\n";
}

std::string secret_text(const BatchJob& job) {
  if (job.nodes == 1) return {};
  return R"sh(# Who knows the job's secret can join it. Only the user can read the file, which is gone with the job.
if [ -z "${COHORT_JOB_SECRET_FILE:-}${COHORT_JOB_SECRET:-}" ]; then
  export COHORT_JOB_SECRET_FILE=$log_dir/.secret-$SLURM_JOB_ID
  trap 'rm -f "$COHORT_JOB_SECRET_FILE"' EXIT
  rm -f "$COHORT_JOB_SECRET_FILE"
  (umask 077 && head -c 32 /dev/urandom | base64 >"$COHORT_JOB_SECRET_FILE") || exit 2
fi

)sh";
}

std::string program_text(const JobPlan& plan) {
  std::string text;
  if (plan.is_requeued) {
    text += "newest() { ls -dt " + plan.checkpoints +
            "/step-*/manifest.json 2>/dev/null | head -n 1; }\n"
            "before=$(newest)\n";
  }
  text +=
      "trap : TERM USR1  # the ranks have the signal as well: this shell waits for them\n"
      "code=0\n"
      "srun ${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK} --kill-on-bad-exit=0";
  for (const std::string& word : plan.words) text += " " + word;
  text += " || code=$?\n";
  if (!plan.is_requeued) return text + "exit \"$code\"\n";
  return text +
         "job=$SLURM_JOB_ID\n"
         "[ -z \"${SLURM_ARRAY_TASK_ID:-}\" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\n"
         "is_preempted() { scontrol -o show job \"$job\" | grep -qE 'JobState=(RUNNING|SIGNALING) "
         ".*PreemptTime=[0-9]'; }\n"
         "# There is a checkpoint: 138 (SIGUSR1) before the time limit, 143 (SIGTERM) if others need the nodes.\n"
         "if [ \"$code\" -eq 138 ] && [ \"$(newest)\" = \"$before\" ]; then\n"
         "  echo 'the job is not queued again: it has written no checkpoint, and would not get further' >&2\n"
         "elif [ \"$code\" -eq 138 ] || { [ \"$code\" -eq 143 ] && is_preempted; }; then\n"
         "  scontrol requeue \"$job\"\n"
         "fi\n"
         "exit \"$code\"\n";
}

}  // namespace

std::vector<JobFile> slurm_files(const BatchJob& job, const std::string& stem) {
  const JobPlan plan = plan_job(job, kSlurmIndex);
  const auto lines = merge_directives(own_lines(job, plan), users_lines(job));
  const std::string check =
      ": \"${SLURM_JOB_ID:?is not set: hand this file in with sbatch, or run it inside salloc}\"\n\n";
  return {{job.log_dir / (stem + ".sbatch"), "#!/bin/bash\n" + directives_text(lines, "#SBATCH ") + "\n" + check +
                                                 folder_text(job) + setup_text(job) + trials_text(plan, kSlurmIndex) +
                                                 secret_text(job) + program_text(plan)}};
}

}  // namespace cohort
