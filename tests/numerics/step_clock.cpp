#include "step_clock.hpp"

#include <fstream>
#include <utility>

namespace numerics {

class StepClock::Watched final : public cohort::Dataset {
 public:
  Watched(std::shared_ptr<cohort::Dataset> dataset, std::shared_ptr<Begins> begins)
      : dataset_(std::move(dataset)), begins_(std::move(begins)) {}

  int64_t size() const override { return dataset_->size(); }
  cohort::Batch get(std::span<const int64_t> indices) override {
    begins_->push_back(std::chrono::steady_clock::now());
    return dataset_->get(indices);
  }

 private:
  std::shared_ptr<cohort::Dataset> dataset_;
  std::shared_ptr<Begins> begins_;
};

cohort::Loader StepClock::train() {
  auto loader = data_.train();
  begins_->reserve(static_cast<size_t>(loader.dataset->size()));
  loader.dataset = std::make_shared<Watched>(std::move(loader.dataset), begins_);
  return loader;
}

void StepClock::write(const std::filesystem::path& file) const {
  std::ofstream out(file);
  out << '[';
  for (size_t i = 1; i < begins_->size(); ++i) {
    const std::chrono::duration<double, std::milli> step = (*begins_)[i] - (*begins_)[i - 1];
    out << (i > 1 ? ", " : "") << step.count();
  }
  out << "]\n";
}

}  // namespace numerics
