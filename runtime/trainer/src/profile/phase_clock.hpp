// Divides time among phases: each moment belongs to the phase that was entered last and not left yet.
//
// So the times of all rows add up to the time between begin and end, however phases lie in each other. Belongs to the
// thread of a loop; another one may use it while that one waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort {

class PhaseClock {
 public:
  struct Row {
    uint64_t count = 0;  ///< how often it was entered
    int64_t ns = 0;
  };

  explicit PhaseClock(size_t rows) : rows_(rows) {}

  size_t add_row() {
    rows_.emplace_back();
    return rows_.size() - 1;
  }
  void enter(size_t row, int64_t now_ns) {
    charge(now_ns);
    open_.push_back(row);
    ++rows_[row].count;
  }
  void leave(int64_t now_ns) {
    charge(now_ns);
    open_.pop_back();
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;
  std::vector<size_t> open_;  // the innermost last
  int64_t charged_until_ns_ = 0;

  void charge(int64_t now_ns) {
    if (!open_.empty()) rows_[open_.back()].ns += now_ns - charged_until_ns_;
    charged_until_ns_ = now_ns;
  }
};

}  // namespace cohort
