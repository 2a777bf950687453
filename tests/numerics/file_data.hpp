// Training data from a safetensors file: x, y of shape [steps, world, batch, ...].
#pragma once

#include <cohort/data.hpp>
#include <filesystem>
#include <memory>

namespace numerics {

class FileData final : public cohort::DataModule {
 public:
  /// The first `steps` rows of the file (0: all). Without shuffling, the runtime's sampler gives rank r at step s the
  /// row [s][r]. Floating-point inputs are converted to `dtype`. Throws UserError if the file does not fit.
  FileData(const std::filesystem::path& file, int64_t steps, int world_size, at::ScalarType dtype, int workers);

  cohort::Loader train() override { return {.dataset = rows_, .workers = workers_}; }
  /// Returns how many each process has.
  int64_t steps() const { return rows_->size() / world_size_; }

 private:
  std::shared_ptr<cohort::Dataset> rows_;
  int world_size_, workers_;
};

}  // namespace numerics
