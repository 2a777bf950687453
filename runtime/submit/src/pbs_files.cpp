// The two files of a PBS job: NAME.pbs, with what the job asks for, and NAME.sh, which starts the ranks.
//
// NAME.sh takes a program and its arguments, so that it serves for others by hand. It reads the job's hosts from
// PBS_NODEFILE and runs `cohort run -H`, which reaches them over ssh, hands them a secret, passes signals on and ends
// what is left. Each rank passes through NAME.sh again, because modules and exports of this node do not reach others.
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "job_files.hpp"
#include "job_plan.hpp"
#include "shell_text.hpp"

namespace cohort {
namespace {

constexpr const char* kPbsIndex = "PBS_ARRAY_INDEX";

DirectiveLine pbs_line_of(const JobDirective& directive) {
  const bool fits = directive.name.size() == 1 && ((directive.name[0] >= 'a' && directive.name[0] <= 'z') ||
                                                   (directive.name[0] >= 'A' && directive.name[0] <= 'Z'));
  if (!fits) {
    throw UserError("submit: " + host::in_quotes(directive.name) +
                    " is no option of qsub; write its letter and value, as in --directive='l=mem=16gb'");
  }
  const std::string value = directive_value(directive.value, "the directive's value");
  const std::string resource = directive.name == "l" ? value.substr(0, value.find('=')) : "";
  return {directive.name + resource, "-" + directive.name + (value.empty() ? "" : " " + value),
          shell_line(directive.comment, "the comment")};
}

std::vector<DirectiveLine> pbs_lines(const BatchJob& job, const JobPlan& plan) {
  std::vector<DirectiveLine> lines, users;
  const auto add = [&](const std::string& name, const std::string& value) {
    lines.push_back(pbs_line_of({.name = name, .value = value}));
  };
  const std::string devices = std::to_string(job.devices);
  add("N", plan.name);
  add("l", "select=" + std::to_string(job.nodes) + ":ncpus=" + devices + ":mpiprocs=" + devices +
               (plan.uses_gpus ? ":ngpus=" + devices : ""));
  add("l", "place=scatter");
  if (job.time_limit.count() > 0) add("l", "walltime=" + time_text(job.time_limit, false));
  if (!job.partition.empty()) add("q", job.partition);
  // qsub refuses an array of one index: every second one of two is one, too.
  if (!plan.array.empty()) add("J", plan.array == "0-0" ? "0-1:2" : plan.array);
  add("j", "oe");
  if (!job.log_dir.empty()) add("o", (job.log_dir / "").string());
  add("r", plan.is_requeued ? "y" : "n");
  for (const JobDirective& directive : job.directives) users.push_back(pbs_line_of(directive));
  return merge_directives(std::move(lines), users);
}

std::string launch_text(const BatchJob& job) {
  const std::string hosts = "hosts=$(awk '!seen[$1]++ { printf \"%s%s:" + std::to_string(job.devices) +
                            "\", separator, $1; separator = \",\" }' \"$PBS_NODEFILE\") || exit 2\n";
  return "#!/bin/bash\n"
         "# Starts PROGRAM [ARGUMENT...] once for each device of the nodes of a PBS job, and passes through here on "
         "each.\n"
         "address=${MASTER_ADDR:-} port=${MASTER_PORT:-}\n\n" +
         setup_text(job) +
         "if [ -n \"${COHORT_RUN_ID:-}\" ]; then  # a rank: where it meets the others has been decided\n"
         "  export MASTER_ADDR=$address MASTER_PORT=$port\n"
         "  exec \"$@\"\n"
         "fi\n"
         ": \"${PBS_NODEFILE:?is not set: hand in the file beside this one with qsub, or run it inside qsub -I}\"\n" +
         hosts + "exec " + shell_word(job.cohort, "the cohort command") +
         " run -H \"$hosts\" \"$BASH\" \"$(realpath \"$0\")\" \"$@\"\n";
}

}  // namespace

std::vector<JobFile> pbs_files(const BatchJob& job, const std::string& stem) {
  const JobPlan plan = plan_job(job, kPbsIndex);
  const std::filesystem::path launch = job.log_dir / (stem + ".sh");
  std::string command = "exec bash " + shell_word(launch.string(), "the folder");
  for (const std::string& word : plan.words) command += " " + word;
  const std::string text = "#!/bin/bash\n" + directives_text(pbs_lines(job, plan), "#PBS ") +
                           "\ncd \"${PBS_O_WORKDIR:-.}\" || exit 2\n\n" + trials_text(plan, kPbsIndex) + command + "\n";
  return {{job.log_dir / (stem + ".pbs"), text}, {launch, launch_text(job)}};
}

}  // namespace cohort
