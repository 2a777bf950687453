// The images of handwritten digits, cut into training, validation and test data.
#pragma once

#include <cohort/data.hpp>
#include <filesystem>
#include <memory>

/// From a folder with the files of the MNIST database: 55,000 images train, 5,000 validate, and the test images test.
/// Without a folder: the 10,000 images that come with the program, as 7,200 / 800 / 2,000.
class MnistData final : public cohort::DataModule {
 public:
  MnistData(const std::filesystem::path& folder, int64_t batch_size);

  cohort::Loader train() override { return {.dataset = train_, .batch_size = batch_size_, .shuffle = true}; }
  cohort::Loader validation() override { return {.dataset = validation_, .batch_size = kEvaluationBatch}; }
  cohort::Loader test() override { return {.dataset = test_, .batch_size = kEvaluationBatch}; }

 private:
  static constexpr int64_t kEvaluationBatch = 250;

  int64_t batch_size_;
  std::shared_ptr<cohort::Dataset> train_, validation_, test_;
};
