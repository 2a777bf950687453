// A free layer whose ranks own parameters in turn: each steps its own, and gives their weights to the others. Or it
// asks for what the host has to refuse, as `does` says.
#include <string>
#include <vector>

#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

class Owners : public sdk::Strategy<Owners> {
 public:
  static constexpr bool kPartialGradients = true;

  void create(const sdk::Options& options) { does_ = options.text("does"); }

  void configure_model() {
    if (does_ == "late") below().configure_model();
    if (does_ != "nothing") own();
    if (does_ != "late") below().configure_model();
  }

  void optimizer_step(const cohort_step& step) {
    if (does_ == "step_foreign") step_one(step.phase, 1 - rank());
    if (does_ == "step_twice") host().optimizers().step(step.phase, {std::vector<uint32_t>(2, rank()).data(), 2});
    if (does_ == "step_each") {
      for (const uint32_t id : own_of(step.phase)) step_one(step.phase, id);
    } else {
      below().optimizer_step(step);
    }
  }

  void end_step(const cohort_step& step) {
    below().end_step(step);
    for (uint32_t id = 0; id < host().num_params() && does_ != "nothing"; ++id) {
      const sdk::TensorView weight = host().param(id);
      host().world().broadcast({weight.data(), weight.numel(), weight.dtype()}, static_cast<int32_t>(owner_of(id)));
    }
  }

 private:
  uint32_t rank() const { return static_cast<uint32_t>(host().world().rank()); }
  uint32_t owner_of(uint32_t id) const { return id % static_cast<uint32_t>(host().world().size()); }

  std::vector<uint32_t> own_of(uint32_t phase) const {
    std::vector<uint32_t> own;
    for (uint32_t id = 0; id < host().num_params(); ++id) {
      const bool is_own = does_ == "own_all" || (does_ != "own_none" && owner_of(id) == rank());
      if (is_own && host().optimizers().phase_of(id) == phase) own.push_back(id);
    }
    if (does_ == "own_unknown") own.push_back(host().num_params());
    if (does_ == "own_twice") own.push_back(own.front());
    return own;
  }

  void own() const {
    const sdk::Optimizers optimizers = host().optimizers();
    for (uint32_t phase = 0; phase < optimizers.count(); ++phase) {
      const std::vector<uint32_t> own = own_of(does_ == "own_other" ? 1 - phase : phase);
      optimizers.own(phase, {own.data(), own.size()});
    }
  }

  void step_one(uint32_t phase, uint32_t id) const { host().optimizers().step(phase, {&id, 1}); }

  std::string does_;
};

constexpr cohort_option kOptions[] = {sdk::option("does", "string", "own", "what it does")};
constexpr cohort_component kOwners =
    sdk::strategy<Owners>("owners", "ranks own parameters in turn").inherits("*").options(kOptions);

}  // namespace

COHORT_SDK_PLUGIN("org.example.owners", "1.0.0", "Example", "MIT", kOwners)
