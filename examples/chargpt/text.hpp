// A text as numbers: each character is its place among the different ones of the text.
#pragma once

#include <torch/types.h>
#include <cohort/data.hpp>
#include <filesystem>
#include <string>

/// The first 90 % of the text train, the rest validates, in pieces that do not overlap.
class Text final : public cohort::DataModule {
 public:
  /// Without a file: the text beside the program. Throws cohort::UserError for a file that cannot be read.
  Text(const std::filesystem::path& file, int64_t context);

  int64_t num_characters() const { return static_cast<int64_t>(characters_.size()); }
  /// Throws cohort::UserError for a character that the text does not have.
  torch::Tensor tokens_of(const std::string& text) const;
  std::string text_of(const torch::Tensor& tokens) const;

  cohort::Loader train() override { return {.dataset = train_, .batch_size = 32, .shuffle = true, .drop_last = true}; }
  cohort::Loader validation() override { return {.dataset = validation_, .batch_size = 64}; }

 private:
  std::string characters_;  // in the order of their numbers
  std::shared_ptr<cohort::Dataset> train_, validation_;
};
