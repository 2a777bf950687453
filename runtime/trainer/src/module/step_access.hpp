// What the loops set in a module around its steps.
#pragma once

#include <utility>

#include <cohort/module.hpp>

namespace cohort::detail {

struct StepAccess {
  static void set_phase(Module& module, size_t phase) { module.phase_ = phase; }
  static ModulePlace& place(Module& module) { return module.place_; }
  /// Returns whether a fit trains the module; never for a clone.
  static bool is_in_fit(const Module& module) { return module.session_ != nullptr; }
  /// Gives a clone the phase and the place of the module.
  static void follow(Module& clone, const Module& module) {
    clone.phase_ = module.phase_;
    clone.place_ = module.place_;
  }
  /// While it lives, the module's collectives and steps by hand go to the session.
  class Using {
   public:
    Using(Module& module, StepDriver& session) : module_(module) { module_.session_ = &session; }
    ~Using() { module_.session_ = nullptr; }
    Using(const Using&) = delete;
    Using& operator=(const Using&) = delete;

   private:
    Module& module_;
  };
  /// While it lives, the module's transfer_batch copies on the stream.
  class Copying {
   public:
    Copying(Module& module, c10::Stream stream)
        : module_(module), previous_(std::exchange(module.copy_stream_, stream)) {}
    ~Copying() { module_.copy_stream_ = previous_; }
    Copying(const Copying&) = delete;
    Copying& operator=(const Copying&) = delete;

   private:
    Module& module_;
    std::optional<c10::Stream> previous_;
  };
  static Output take_for_step_end(Module& module) { return std::exchange(module.for_step_end_, {}); }
  /// Calls a hook of the whole batch; false where the module has none of its own.
  template <class Hook>
  static bool call(Module& module, const Hook& hook) {
    module.inherits_step_end_ = false;
    hook();
    return !module.inherits_step_end_;
  }
};

}  // namespace cohort::detail
