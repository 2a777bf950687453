#include <cohort/runtime.hpp>

#include "callbacks/built_in.hpp"

namespace cohort {
namespace {

class TimeLimit final : public Callback {
 public:
  explicit TimeLimit(std::chrono::seconds limit) : end_(Clock::now() + limit) {}

  std::string name() const override { return "time_limit"; }
  void on_vote(Fit& fit) override {
    if (fit.runtime().is_first() && Clock::now() >= end_) {
      fit.stop({.exit_reason = "max_time", .text = "--max-time is over", .is_final = false});
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

}  // namespace

std::shared_ptr<Callback> time_limit(std::chrono::seconds limit) {
  return std::make_shared<TimeLimit>(limit);
}

}  // namespace cohort
