#include "checkpoint/checkpoint_parts.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/machine.hpp>
#include <cohort/host/message.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/owned_state.hpp"
#include "state/tensor_index.hpp"

namespace cohort {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FileDigest, bytes, sha256)

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kBetweenLooks{5};
constexpr const char* kMarkPrefix = "written-";
constexpr uint64_t kMostMarkBytes = 1 << 20;

void check_all_arrived(const fs::path& partial, const std::map<std::string, FileDigest>& files) {
  for (const auto& [name, digest] : files) {
    std::error_code error;
    if (fs::file_size(partial / name, error) == digest.bytes && !error) continue;
    throw UserError("rank 0 does not see " + shown(partial / name) +
                    " as another rank wrote it; put checkpoints on a file system that all nodes share");
  }
}

uint64_t next_sequence(const fs::path& folder) {
  uint64_t last = 0;
  for (const auto& found : find_checkpoints(folder)) {
    if (found.problem.empty()) last = std::max(last, found.sequence);
  }
  return last + 1;
}

void copy(NamedTensors& tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

/// Deletes a checkpoint that was begun unless it was published, because a full disk needs the room.
class BegunCheckpoint {
 public:
  explicit BegunCheckpoint(fs::path checkpoint) : checkpoint_(std::move(checkpoint)) { begin_checkpoint(checkpoint_); }
  ~BegunCheckpoint() {
    if (!is_published_) abandon_checkpoint(checkpoint_);
  }
  BegunCheckpoint(const BegunCheckpoint&) = delete;
  BegunCheckpoint& operator=(const BegunCheckpoint&) = delete;

  void publish() {
    publish_checkpoint(checkpoint_);
    is_published_ = true;
  }

 private:
  fs::path checkpoint_;
  bool is_published_ = false;
};

/// The files that one rank has written, as its mark tells rank 0. An empty mark says that it could not: a full disk has
/// room for one.
struct CheckpointParts::WrittenFiles {
  std::map<std::string, FileDigest> files;
  std::set<std::string> own_state;

  void merge(WrittenFiles others) {
    own_state.merge(others.own_state);
    for (auto& [name, digest] : others.files) files[name] = std::move(digest);
  }
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(WrittenFiles, files, own_state)
};

CheckpointParts::CheckpointParts(fs::path checkpoint, const Runtime& runtime)
    : checkpoint_(std::move(checkpoint)),
      partial_(partial_of(checkpoint_)),
      rank_(runtime.rank()),
      world_size_(runtime.world_size()),
      timeout_(runtime.options().timeout) {}
CheckpointParts::CheckpointParts(CheckpointParts&&) noexcept = default;
CheckpointParts::~CheckpointParts() = default;

void CheckpointParts::begin() {
  if (rank_ == 0) begun_ = std::make_unique<BegunCheckpoint>(checkpoint_);
}

void CheckpointParts::check_folder() const {
  std::error_code ignored;
  if (fs::is_directory(partial_, ignored)) return;
  throw UserError("the folder '" + shown(partial_.parent_path()) + "' on " + host::host_name() +
                  " is not the one that rank 0 writes into; put checkpoints on a file system that all nodes share");
}

void CheckpointParts::check_names() const {
  for (const NamedTensors* const tensors : {&own, &owned, &shared}) {
    for (const auto& [name, tensor] : *tensors) {
      if (host::on_one_line(name) == name) continue;
      throw UserError("the tensor " + host::in_quotes(name) +
                      " has a control character in its name, which no checkpoint " +
                      "can be read with; give it another name");
    }
  }
}

void CheckpointParts::copy_tensors() {
  for (NamedTensors* const tensors : {&own, &owned, &shared}) copy(*tensors);
}

fs::path CheckpointParts::mark_of(int rank) const {
  return partial_ / (kMarkPrefix + std::to_string(rank) + ".json");
}

CheckpointParts::WrittenFiles CheckpointParts::write_files() {
  WrittenFiles written;
  written.own_state.insert(own_state.begin(), own_state.end());
  const auto write = [&](const std::string& name, NamedTensors& tensors) {
    write_safetensors(partial_ / name, tensors);
    written.files[name] = digest_of_file(partial_ / name);
    tensors.clear();
  };
  write(rank_file(rank_), own);
  if (!owned.empty()) write(owned_file(rank_), owned);
  if (rank_ == 0) write(kSharedFile, shared);
  return written;
}

void CheckpointParts::write_and_mark() {
  try {
    host::write_file(mark_of(rank_), to_text(write_files()));
  } catch (...) {
    std::ofstream{mark_of(rank_)};
    throw;
  }
}

bool CheckpointParts::write(std::optional<int64_t> keep, const std::stop_token& stopped) {
  if (rank_ > 0) {
    write_and_mark();
    return true;
  }
  const auto written = with_others(write_files(), stopped);
  if (!written) return false;
  check_all_arrived(partial_, written->files);
  for (int rank = 1; rank < world_size_; ++rank) fs::remove(mark_of(rank));
  std::ranges::copy(written->own_state, std::back_inserter(manifest.per_rank));
  manifest.files = written->files;
  manifest.sequence = next_sequence(checkpoint_.parent_path());
  host::write_file(partial_ / kManifestFile, to_json(manifest));
  begun_->publish();
  if (keep) prune_checkpoints(checkpoint_.parent_path(), *keep);
  return true;
}

// Polls, because nothing tells of a file that another machine has written.
std::optional<CheckpointParts::WrittenFiles> CheckpointParts::with_others(WrittenFiles all,
                                                                          const std::stop_token& stopped) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  for (int rank = 1; rank < world_size_; ++rank) {
    std::error_code ignored;
    while (!fs::exists(mark_of(rank), ignored)) {
      if (stopped.stop_requested()) return std::nullopt;
      if (std::chrono::steady_clock::now() > deadline) {
        throw UserError("rank " + std::to_string(rank) + " has not written its part of " + shown(checkpoint_) +
                        " within --timeout; put checkpoints on a faster file system that all nodes share");
      }
      std::this_thread::sleep_for(kBetweenLooks);
    }
    const std::string text = host::read_text_file(mark_of(rank), kMostMarkBytes);
    if (text.empty()) return std::nullopt;
    auto written = from_text<WrittenFiles>(text);
    if (!written) {
      throw UserError("'" + shown(mark_of(rank)) + "' is not what rank " + std::to_string(rank) +
                      " wrote; let nothing else write into folders of checkpoints");
    }
    all.merge(std::move(*written));
  }
  return all;
}

}  // namespace cohort
