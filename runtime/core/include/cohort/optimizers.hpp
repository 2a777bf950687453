// The optimizers of a model: one, or several in order (each is then a phase of the step), with the schedules of their
// learning rates. An optimizer is given by value or by a shared or unique pointer:
//
//   return torch::optim::Adam(parameters(), 1e-3);
//   return {torch::optim::Adam(parameters(), 1e-3), cohort::schedule::cosine()};
//   return {torch::optim::Adam(g->parameters(), 1e-3), torch::optim::SGD(d->parameters(), 0.1)};
//   return {{"generator", torch::optim::Adam(g->parameters(), 1e-3)},
//           {"discriminator", torch::optim::Adam(d->parameters(), 1e-3), cohort::schedule::step(1000)}};
//
// Shares ownership of the optimizers. Not thread-safe.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include <cohort/schedule.hpp>

namespace cohort {

template <class Given>
concept OptimizerOrPointer = std::derived_from<std::remove_cvref_t<Given>, torch::optim::Optimizer> ||
    std::convertible_to<Given, std::shared_ptr<torch::optim::Optimizer>>;

class Optimizers {
 public:
  using Schedules = std::vector<Schedule>;

  /// One of a list, with a name or without.
  class Listed {
   public:
    template <OptimizerOrPointer Given>
    Listed(Given&& optimizer)  // NOLINT(google-explicit-constructor): an element of what configure_optimizers returns
        : optimizer_(shared(std::forward<Given>(optimizer))) {}
    template <OptimizerOrPointer Given>
    Listed(std::string name, Given&& optimizer, Schedules by_group = {})
        : name_(std::move(name)), optimizer_(shared(std::forward<Given>(optimizer))), schedules_(std::move(by_group)) {}
    template <OptimizerOrPointer Given>
    Listed(std::string name, Given&& optimizer, Schedule schedule)
        : Listed(std::move(name), std::forward<Given>(optimizer), Schedules{std::move(schedule)}) {}

   private:
    friend class Optimizers;
    std::optional<std::string> name_;
    std::shared_ptr<torch::optim::Optimizer> optimizer_;
    Schedules schedules_;
  };

  Optimizers() = default;
  template <OptimizerOrPointer Given>
  Optimizers(Given&& optimizer) {  // NOLINT(google-explicit-constructor): what configure_optimizers returns
    add(std::forward<Given>(optimizer));
  }
  template <OptimizerOrPointer Given>
  Optimizers(Given&& optimizer, Schedule schedule) {
    add(std::forward<Given>(optimizer), std::move(schedule));
  }
  template <OptimizerOrPointer Given>
  Optimizers(Given&& optimizer, Schedules by_group) {
    add(std::forward<Given>(optimizer), std::move(by_group));
  }
  Optimizers(std::initializer_list<Listed> several) {
    for (const Listed& one : several) add(one);
  }

  /// One schedule is for all parameter groups; else there is one for each, or none. Throws UserError where their
  /// numbers differ, for a null pointer, and for a name that is taken or is no name.
  template <OptimizerOrPointer Given>
  Optimizers& add(Given&& optimizer, Schedules by_group = {}) {
    return append({}, shared(std::forward<Given>(optimizer)), std::move(by_group));
  }
  template <OptimizerOrPointer Given>
  Optimizers& add(Given&& optimizer, Schedule schedule) {
    return append({}, shared(std::forward<Given>(optimizer)), {std::move(schedule)});
  }
  Optimizers& add(const Listed& one);

  size_t size() const { return optimizers_.size(); }
  torch::optim::Optimizer& operator[](size_t phase) const { return *optimizers_[phase]; }
  auto begin() const { return optimizers_.begin(); }
  auto end() const { return optimizers_.end(); }

  /// Returns the name that was given, or "".
  const std::string& name(size_t phase) const& { return details_[phase].name; }
  std::string name(size_t phase) && { return details_[phase].name; }
  /// Returns none, one for all parameter groups, or one for each.
  const Schedules& schedules(size_t phase) const& { return details_[phase].schedules; }
  Schedules schedules(size_t phase) && { return details_[phase].schedules; }
  bool have_schedules() const;

 private:
  struct Details {
    std::string name;
    Schedules schedules;
  };

  template <OptimizerOrPointer Given>
  static std::shared_ptr<torch::optim::Optimizer> shared(Given&& given) {
    using Kind = std::remove_cvref_t<Given>;
    if constexpr (std::derived_from<Kind, torch::optim::Optimizer>) {
      static_assert(!std::is_lvalue_reference_v<Given>,
                    "an optimizer cannot be copied: give std::move(optimizer), or make it with std::make_shared");
      return std::make_shared<Kind>(std::forward<Given>(given));
    } else {
      return std::forward<Given>(given);
    }
  }
  Optimizers& append(std::string name, std::shared_ptr<torch::optim::Optimizer> optimizer, Schedules schedules);

  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers_;
  std::vector<Details> details_;  // by optimizer
};

}  // namespace cohort
