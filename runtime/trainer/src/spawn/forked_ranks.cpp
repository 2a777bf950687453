#include "spawn/forked_ranks.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/options.hpp>
#include <cohort/host/process.hpp>
#include <cohort/launch/fork_ranks.hpp>
#include <cohort/trainer.hpp>

#include "failure/failure.hpp"
#include "failure/rank_life.hpp"
#include "program/unfinished_work.hpp"
#include "spawn/fork_safety.hpp"
#include "weights/safetensors_image.hpp"

namespace cohort {
namespace {

/// A file in memory that forks share.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("cohort-rank", MFD_CLOEXEC)) {
    if (descriptor_ >= 0) return;
    throw UserError(std::string("cannot make a file in memory for the results of a rank (") + std::strerror(errno) +
                    "); raise the limit of open files");
  }
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  MemoryFile(MemoryFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  MemoryFile& operator=(MemoryFile&&) = delete;

  void write(const Parcel& parcel) const {
    const SafetensorsImage image(parcel.tensors, parcel.metadata, path().string());
    host::write_parts(descriptor_, path(), image.parts());
  }
  bool is_empty() const { return std::filesystem::file_size(path()) == 0; }
  Parcel read() const { return read_safetensors(path()); }

 private:
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  int descriptor_;
};

int be_a_rank(Runtime& runtime, const std::vector<MemoryFile>& files, const std::function<Parcel()>& work) {
  const UnfinishedWork work_of_rank(runtime.log(), {});
  try {
    host::ignore_write_signals();
    runtime.become(host::detect_topology(host::process_environment()));
  } catch (...) {
    const Failure failure = current_failure();
    report_failure(failure, runtime.log(), {});
    return failure.exit_code;
  }
  return run_rank(runtime, {}, [&] {
    files[static_cast<size_t>(runtime.rank())].write(work());
    return 0;
  });
}

[[noreturn]] void throw_failure(int exit_code) {
  if (exit_code == 0) {
    throw TrainingFailed("a rank ended its process before its work was done; a hook must not call _exit");
  }
  throw RankFailed(static_cast<ExitCode>(exit_code),
                   "a rank failed, with exit code " + std::to_string(exit_code) + "; its own message is in the log");
}

}  // namespace

Harvest run_in_forked_ranks(Runtime& runtime, const std::function<Parcel()>& work) {
  const std::string objection = objection_to_fork();
  if (!objection.empty()) runtime.refuse_to_fork(objection);
  runtime.note_fork();
  launch::LaunchJob job;
  job.processes_per_node = runtime.world_size();
  job.master_addr = runtime.topology().master_addr;
  job.master_port = runtime.topology().master_port;
  const std::vector<MemoryFile> files(static_cast<size_t>(job.processes_per_node));
  const auto end = launch::fork_ranks(job, runtime.log(), [&] { return be_a_rank(runtime, files, work); });
  const bool complete = std::none_of(files.begin(), files.end(), [](const auto& file) { return file.is_empty(); });
  if (!complete && end.stop_signal != 0) throw Interrupted{end.stop_signal};
  if (!complete || (end.exit_code != 0 && end.stop_signal == 0)) throw_failure(end.exit_code);
  Harvest harvest;
  harvest.stop_signal = end.stop_signal;
  for (const MemoryFile& file : files) harvest.parcels.push_back(file.read());
  return harvest;
}

}  // namespace cohort
