// The hooks of a module around a pass over data without gradients.
#pragma once

#include <cstdint>
#include <string>

#include <cohort/module.hpp>

#include "failure/hook_place.hpp"

namespace cohort {

/// The hooks of one kind of pass.
struct PassHooks {
  const char* pass;  ///< "validation", as in their names
  void (ModuleHooks::*start)();
  void (ModuleHooks::*epoch_start)();
  void (ModuleHooks::*batch_start)(const Batch&, int64_t);
  void (ModuleHooks::*batch_end)(const Batch&, int64_t);
  void (ModuleHooks::*epoch_end)();
  void (ModuleHooks::*end)(const Metrics&);  ///< null: it is given no metrics, and called by others
};

inline constexpr PassHooks kValidationHooks{
    "validation",
    &ModuleHooks::on_validation_start,
    &ModuleHooks::on_validation_epoch_start,
    &ModuleHooks::on_validation_batch_start,
    &ModuleHooks::on_validation_batch_end,
    &ModuleHooks::on_validation_epoch_end,
    &ModuleHooks::on_validation_end,
};
inline constexpr PassHooks kTestHooks{
    "test",
    &ModuleHooks::on_test_start,
    &ModuleHooks::on_test_epoch_start,
    &ModuleHooks::on_test_batch_start,
    &ModuleHooks::on_test_batch_end,
    &ModuleHooks::on_test_epoch_end,
    &ModuleHooks::on_test_end,
};
inline constexpr PassHooks kPredictHooks{
    "predict",
    &ModuleHooks::on_predict_start,
    &ModuleHooks::on_predict_epoch_start,
    &ModuleHooks::on_predict_batch_start,
    &ModuleHooks::on_predict_batch_end,
    &ModuleHooks::on_predict_epoch_end,
    nullptr,
};

/// Calls them for a module; what one throws tells of its place.
class HookedPass {
 public:
  HookedPass(Module& module, const PassHooks& hooks);

  /// The two that begin the pass.
  void start();
  void batch_start(const Batch& batch, int64_t index);
  void batch_end(const Batch& batch, int64_t index);
  void epoch_end();
  void end(const Metrics& means);

 private:
  HookPlace place(const std::string& hook) const;
  HookPlace place(const std::string& hook, const Batch& batch, int64_t index) const;

  Module& module_;
  const PassHooks& hooks_;
  const std::string prefix_, batch_start_, batch_end_;  // of names; names
};

}  // namespace cohort
