// A job that has been checked, in the form in which all job files show it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <cohort/submit.hpp>

namespace cohort {

/// A line for the scheduler, with its comment on a line before it.
struct DirectiveLine {
  std::string key;  ///< what it is about: of two lines with the same key the user's is kept
  std::string text;
  std::string comment = {};
};

struct JobPlan {
  std::string name;
  bool uses_gpus = true;
  std::vector<std::string> words;   ///< of the program and its arguments, as a shell reads them
  std::vector<std::string> trials;  ///< of a grid: the further words of each
  std::string array;                ///< indices of the tasks; empty: no array
  std::string why_not_requeued;     ///< one sentence; empty if the job is queued again, or is not meant to be
  bool is_requeued = false;
  std::string checkpoints;  ///< of a job that is queued again: the folder, as a shell reads it
};

/// Checks the job and returns it as a plan. `index` is the shell's variable with the index of a task of an array.
/// Throws UserError for a job that contradicts itself or holds what has no place in a job file.
JobPlan plan_job(const BatchJob& job, const std::string& index);

/// Returns the name of the job: the one that is given, or the program's.
std::string name_of(const BatchJob& job);

/// Returns `own` followed by the user's directives, each where it was given, without those of `own` that a directive of
/// the user replaces.
std::vector<DirectiveLine> merge_directives(std::vector<DirectiveLine> own, const std::vector<DirectiveLine>& users);

/// Returns the text of these lines behind "#SBATCH " or "#PBS ".
std::string directives_text(const std::vector<DirectiveLine>& lines, const std::string& prefix);

/// Returns a line for each shell line that runs before the program, and one empty line if there are any.
std::string setup_text(const BatchJob& job);

/// Returns shell lines that set the array `trial` to the further arguments of this task; empty without a grid.
std::string trials_text(const JobPlan& plan, const std::string& index);

/// Returns "[days-]HH:MM:SS".
std::string time_text(std::chrono::seconds time, bool with_days);

/// Returns a path or another value in a directive, in double quotes if it has a space. Throws UserError if it holds a
/// character that schedulers read in ways of their own.
std::string directive_value(const std::string& text, const std::string& what);

}  // namespace cohort
