#include "data/prefetch_source.hpp"

#include <future>
#include <limits>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>

#include "data/device_copy.hpp"

namespace cohort {
namespace {

class PrefetchSource final : public BatchSource {
 public:
  PrefetchSource(std::unique_ptr<BatchSource> source, c10::Device device)
      : source_(std::move(source)), device_(device), left_(source_->available(std::numeric_limits<int64_t>::max())) {}

  int64_t available(int64_t wanted) override { return std::min(wanted, left_); }

  // Reading begins here at the latest, not where this is made: a run that goes on sets the generator in between.
  void settle() override {
    start();
    if (pending_.valid()) pending_.wait();
  }

  at::Tensor generator_before_ahead() const override { return pending_.valid() ? before_ahead_ : at::Tensor(); }

  Batch next() override {
    start();
    Batch batch = pending_.get();
    --left_;
    start();
    return batch;
  }

 private:
  // The future of std::async joins its thread when it is destroyed, so the thread never outlives source_.
  void start() {
    if (left_ == 0 || pending_.valid()) return;
    before_ahead_ = at::detail::getDefaultCPUGenerator().get_state();
    pending_ = std::async(std::launch::async, [this] { return pinned(source_->next(), device_); });
  }

  std::unique_ptr<BatchSource> source_;
  const c10::Device device_;
  int64_t left_;
  at::Tensor before_ahead_;
  std::future<Batch> pending_;
};

}  // namespace

std::unique_ptr<BatchSource> with_prefetch(std::unique_ptr<BatchSource> source, c10::Device device) {
  return std::make_unique<PrefetchSource>(std::move(source), device);
}

}  // namespace cohort
