// A bottom layer that records which slots were called, and a layer on top of it made from a plugin's table.
#pragma once

#include <string>
#include <vector>

#include <cohort/api/strategy.h>

namespace cohort::test {

/// Stands where the runtime's `base` stands: every slot is filled, records its name and returns `result`.
class RecordingBase {
 public:
  RecordingBase();

  cohort_strategy* layer() { return &layer_; }

  std::vector<std::string> calls;
  cohort_status result = COHORT_OK;
  cohort_dist_args last_dist_args{};

 private:
  cohort_strategy layer_{};
};

/// One layer over a base. Null slots stay null: what is not set is not called by these tests.
class LayerOver {
 public:
  LayerOver(const cohort_strategy_vt& vt, RecordingBase& base, const cohort_host* host);
  ~LayerOver();
  LayerOver(const LayerOver&) = delete;
  LayerOver& operator=(const LayerOver&) = delete;

  cohort_status create(const char* variant = "", std::vector<cohort_key_value> options = {});
  cohort_strategy* operator->() { return &layer_; }
  cohort_strategy* get() { return &layer_; }
  const cohort_strategy_vt& vt() const { return *layer_.vt; }

 private:
  cohort_strategy layer_{};
};

}  // namespace cohort::test
