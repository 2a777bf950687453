// Training data from a safetensors file: x, y of shape [steps, world, batch, ...].
#pragma once

#include <cohort/data.hpp>
#include <filesystem>
#include <memory>

namespace numerics {

class FileData final : public cohort::DataModule {
 public:
  /// The first `steps` rows of the file (0: all). Without shuffling, the runtime's sampler gives rank r at step s the
  /// row [s][r]. Floating-point inputs are converted to `dtype`. Throws UserError where the file does not fit.
  FileData(const std::filesystem::path& file, int64_t steps, int world_size, at::ScalarType dtype);

  cohort::Loader train() override { return {.dataset = rows_}; }

 private:
  std::shared_ptr<cohort::Dataset> rows_;
};

}  // namespace numerics
