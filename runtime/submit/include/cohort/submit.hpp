// Jobs for the schedulers of clusters: what a job asks for, the files that say so to SLURM or PBS, and handing them in.
//
//     cohort::SlurmCluster cluster({.command = {"./mnist", "--epochs=10"}, .nodes = 12, .devices = 8});
//     cluster.add_directive("ntasks-per-node", "8", "1 task per gpu");
//     cluster.load_modules({"NCCL/2.4.7-1-cuda.10.0"});
//     cluster.add_command("export NCCL_DEBUG=INFO");
//     const cohort::Submission submission = cluster.submit();
//
// A job runs one task, which is a rank, for each device of each node. docs/operator.md says what its files do. Plain
// values; an object belongs to one thread at a time. Throws UserError for everything that the caller can mend.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

enum class Scheduler { kSlurm, kPbs };

/// A line for the scheduler: "#SBATCH --name=value", or "#SBATCH -n value" where the name is one letter. It replaces
/// the line of the same name that cohort would write.
struct JobDirective {
  std::string name;        ///< without dashes
  std::string value = {};  ///< empty: none
  std::string comment = {};
};

/// Values of a flag of the program, each of which is tried with all values of the other flags.
struct GridFlag {
  std::string name;  ///< without dashes
  std::vector<std::string> values;
};

/// A job: the resources that it asks for, and the program that it runs.
struct BatchJob {
  std::vector<std::string> command;  ///< the program, a path or a name in PATH, and its arguments
  std::string name = {};             ///< empty: the program's
  int nodes = 1;
  int devices = 1;                                ///< of each node: GPUs, unless the program is told --accelerator=cpu
  std::chrono::seconds time_limit{0};             ///< 0: the scheduler's own
  std::string partition = {};                     ///< PBS: the queue; empty: the scheduler's own
  std::filesystem::path log_dir = "cohort_jobs";  ///< of the job file, its output and its secret; all nodes see it
  std::vector<std::string> setup = {};            ///< shell lines that run before the program, each on a line
  std::vector<JobDirective> directives = {};
  std::string array = {};           ///< indices of the tasks of an array: "0-9", "1,3,5-7%2"
  std::vector<GridFlag> grid = {};  ///< makes an array of one task for each combination
  /// Queues the job again when its time ends and, under PBS, when the system has ended it. Needs --checkpoint-dir among
  /// the program's arguments.
  bool requeue = true;
  std::chrono::seconds stop_before{90};  ///< the end of the time limit, when ranks write a checkpoint and stop
  std::string cohort = "cohort";         ///< the cohort command as all nodes find it, which starts the ranks under PBS
};

struct JobFile {
  std::filesystem::path path;
  std::string text;
};

struct Submission {
  std::string number;  ///< of the job, as the scheduler writes it
  std::vector<JobFile> files;
};

/// A job and the scheduler that it is for.
class Cluster {
 public:
  Cluster(Scheduler scheduler, BatchJob job);

  const BatchJob& job() const { return job_; }

  /// Appends a shell line that runs before the program, behind those that are there.
  void add_command(const std::string& line);
  /// Appends a `module load` for each, likewise.
  void load_modules(const std::vector<std::string>& modules);
  void add_directive(const std::string& name, const std::string& value = {}, const std::string& comment = {});

  /// Returns the job file and, for PBS, the file that starts the ranks, under the paths of a first job of this name.
  /// Throws UserError if the job contradicts itself. Writes nothing.
  std::vector<JobFile> files() const;
  /// Returns one sentence on why the job is not queued again although it should be; "" if it is.
  std::string why_not_requeued() const;
  /// Writes the files under names that are free and gives them to the scheduler: runs sbatch or qsub.
  Submission submit() const;

 private:
  Scheduler scheduler_;
  BatchJob job_;
};

class SlurmCluster : public Cluster {
 public:
  explicit SlurmCluster(BatchJob job) : Cluster(Scheduler::kSlurm, std::move(job)) {}
};

class PbsCluster : public Cluster {
 public:
  explicit PbsCluster(BatchJob job) : Cluster(Scheduler::kPbs, std::move(job)) {}
};

}  // namespace cohort
