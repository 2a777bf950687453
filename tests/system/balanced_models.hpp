// The models of balanced_program: written as users write them, and small. All of them give scores of kClasses classes.
#pragma once

#include <cohort/cohort.hpp>

#include <memory>
#include <string>
#include <vector>

namespace balanced_program {

constexpr int64_t kClasses = 5;

struct Settings {
  std::string model = "gpt";
  std::string optimizer = "adam";
  int64_t fail_at = -1;  ///< training_step fails on the piece that holds this sample
};

/// Returns inputs, targets and numbers of samples that fit a model; the same ones each time.
std::vector<at::Tensor> samples_of(const std::string& model, int64_t count, uint64_t seed);

/// Returns the model of balanced_corners.cpp.
std::shared_ptr<cohort::Module> make_corners();
/// Throws UserError for an unknown name.
std::shared_ptr<cohort::Module> make_model(const Settings& settings);

}  // namespace balanced_program
