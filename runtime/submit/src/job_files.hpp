// The text of the files that describe a job to its scheduler. Pure functions of the job.
#pragma once

#include <string>
#include <vector>

#include <cohort/submit.hpp>

namespace cohort {

/// Returns NAME.sbatch in the log folder. `stem` is the file's name without its ending.
std::vector<JobFile> slurm_files(const BatchJob& job, const std::string& stem);

/// Returns NAME.pbs and NAME.sh, which starts the ranks, in the log folder.
std::vector<JobFile> pbs_files(const BatchJob& job, const std::string& stem);

}  // namespace cohort
