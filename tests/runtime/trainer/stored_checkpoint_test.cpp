// Checkpoints that other versions have written are trained from as those versions did.
//
// The folders of data/checkpoints hold the checkpoint of two epochs, and as `expected.safetensors` the weights and
// states after two more. COHORT_STORE_CHECKPOINT=1 writes those of the present version of the format and of LibTorch.
#include <gmock/gmock.h>
#include <torch/version.h>

#include <cstdlib>

#include "checkpoint/checkpoint_folder.hpp"
#include "full_training.hpp"

namespace cohort::testing {
namespace {

const fs::path kStored = fs::path(COHORT_TEST_DATA) / "checkpoints";

fs::path newest_in(const fs::path& folder) {
  return find_checkpoints(folder / "checkpoints").at(0).path;
}

void store_own() {
  const TemporaryFolder folder;
  train_in_full(folder.path(), 2);
  const fs::path own = kStored / ("format-" + std::to_string(Manifest::kFormat) + "-torch-" + TORCH_VERSION);
  fs::remove_all(own);
  fs::create_directories(own);
  const fs::path checkpoint = newest_in(folder.path());
  fs::copy(checkpoint, own / checkpoint.filename(), fs::copy_options::recursive);
  train_in_full(folder.path(), 4);
  fs::copy(newest_in(folder.path()) / kSharedFile, own / "expected.safetensors");
}

/// Expects the tensors of a file, up to what processors round differently.
void expect_tensors(const fs::path& file, const fs::path& expected) {
  const SafetensorsFile ours = read_safetensors(file);
  for (const auto& [name, tensor] : read_safetensors(expected).tensors) {
    // Callbacks keep times of the clock. The gradient of a bias that batch norm takes away again is a sum of roundings,
    // which Adam scales up: it moves the bias, and with it the running mean, in another way on another processor.
    if (name.ends_with("fc1.bias") || name == "bn.running_mean") continue;
    if (name.starts_with("cohort.") && !name.starts_with("cohort.trained/")) continue;
    const at::Tensor* const own = ours.find(name);
    ASSERT_TRUE(own != nullptr) << name;
    EXPECT_TRUE(own->allclose(tensor, 1e-4, 1e-6)) << name;
  }
}

TEST(StoredCheckpoint, IsTrainedFromAsByItsVersion) {
  if (std::getenv("COHORT_STORE_CHECKPOINT") != nullptr) store_own();
  int stored = 0;
  for (const auto& version : fs::directory_iterator(kStored)) {
    SCOPED_TRACE(version.path());
    const TemporaryFolder folder;
    fs::create_directories(folder.path() / "checkpoints");
    for (const auto& checkpoint : fs::directory_iterator(version.path())) {
      if (!checkpoint.is_directory()) continue;
      fs::copy(checkpoint, folder.path() / "checkpoints" / checkpoint.path().filename(), fs::copy_options::recursive);
    }
    train_in_full(folder.path(), 4);
    expect_tensors(newest_in(folder.path()) / kSharedFile, version.path() / "expected.safetensors");
    ++stored;
  }
  EXPECT_GT(stored, 0);
}

}  // namespace
}  // namespace cohort::testing
