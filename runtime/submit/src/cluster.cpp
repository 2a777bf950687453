// Writes the files of a job under names that are free, and gives them to the scheduler.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/launch/launch.hpp>
#include <cohort/submit.hpp>

#include "job_files.hpp"
#include "job_plan.hpp"
#include "run_program.hpp"
#include "shell_text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kDeadline{2};

std::vector<JobFile> files_of(Scheduler scheduler, const BatchJob& job, const std::string& stem) {
  return scheduler == Scheduler::kSlurm ? slurm_files(job, stem) : pbs_files(job, stem);
}

/// Returns the path of sbatch or qsub.
std::string submitting_program(Scheduler scheduler) {
  const std::string name = scheduler == Scheduler::kSlurm ? "sbatch" : "qsub";
  try {
    return launch::find_program(name);
  } catch (const UserError&) {
    throw UserError("submit: there is no " + name + " in PATH; submit where the scheduler's programs are, " +
                    "or look at the job file with --dry-run");
  }
}

void remove(const std::vector<JobFile>& files) {
  for (const JobFile& file : files) ::unlink(file.path.c_str());
}

[[noreturn]] void fail_to_write(const fs::path& folder, const std::error_code& failure) {
  throw UserError("submit: no job file can be written in the folder " + host::in_quotes(folder.native()) + " (" +
                  failure.message() + "); name another with --log-dir");
}

/// Makes the files, empty; returns false, and makes none, if one of them is there already.
bool make_new(const std::vector<JobFile>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const int made = ::open(files[i].path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const int error = errno;
    if (made >= 0) {
      ::close(made);
      continue;
    }
    remove({files.begin(), files.begin() + static_cast<std::ptrdiff_t>(i)});
    if (error == EEXIST) return false;
    fail_to_write(files[i].path.parent_path(), std::error_code(error, std::generic_category()));
  }
  return true;
}

/// Writes the files of a job that is called NAME, or NAME-2, NAME-3, ... after the first name that is free, so that no
/// job gets the files of another, and no file of the user's is lost.
std::vector<JobFile> write_new(Scheduler scheduler, const BatchJob& job) {
  std::error_code failure;
  if (!job.log_dir.empty()) fs::create_directories(job.log_dir, failure);
  if (failure) fail_to_write(job.log_dir, failure);
  for (int number = 1;; ++number) {
    const auto files = files_of(scheduler, job, name_of(job) + (number == 1 ? "" : "-" + std::to_string(number)));
    if (!make_new(files)) continue;
    for (const JobFile& file : files) host::write_file(file.path, file.text);
    return files;
  }
}

/// Returns the number in what `sbatch --parsable` ("17" or "17;cluster") or qsub ("17.server") has written.
std::string number_in(std::string_view output) {
  return std::string(output.substr(0, output.find_first_of(";\r\n ")));
}

}  // namespace

Cluster::Cluster(Scheduler scheduler, BatchJob job) : scheduler_(scheduler), job_(std::move(job)) {}

void Cluster::add_command(const std::string& line) {
  job_.setup.push_back(shell_line(line, "the command"));
}

void Cluster::load_modules(const std::vector<std::string>& modules) {
  for (const std::string& module : modules) add_command("module load " + shell_word(module, "the module"));
}

void Cluster::add_directive(const std::string& name, const std::string& value, const std::string& comment) {
  job_.directives.push_back({name, value, comment});
}

std::vector<JobFile> Cluster::files() const {
  return files_of(scheduler_, job_, name_of(job_));
}

std::string Cluster::why_not_requeued() const {
  return plan_job(job_, "").why_not_requeued;
}

Submission Cluster::submit() const {
  files();  // what is wrong with the job is found before anything is written
  launch::find_program(job_.command[0]);
  std::vector<std::string> command{submitting_program(scheduler_)};
  Submission submission{{}, write_new(scheduler_, job_)};
  if (scheduler_ == Scheduler::kSlurm) command.emplace_back("--parsable");
  command.push_back(submission.files.front().path.string());
  const ProgramEnd end = run_program(command, kDeadline);
  submission.number = number_in(end.output);
  if (end.exit_code == 0 && !submission.number.empty()) return submission;
  remove(submission.files);
  throw UserError("submit: " + command[0] + " has not taken the job (exit code " + std::to_string(end.exit_code) +
                  "; what it says stands above); correct what it names, or see the job file with --dry-run");
}

}  // namespace cohort
