// A descriptor and its components in the sizes of this host, whatever sizes the plugin was built with.
#pragma once

#include <deque>
#include <vector>

#include <cohort/api/plugin.h>

#include "given/given_struct.hpp"

namespace cohort::host {

/// Copies a descriptor that has passed the checks; what its fields point to stays the plugin's.
class FullDescriptor {
 public:
  explicit FullDescriptor(const cohort_plugin& given) : plugin_(full_copy(given)) {
    for (const cohort_component* const* it = given.components; *it; ++it) components_.push_back(full_copy(**it));
    for (const cohort_component& component : components_) list_.push_back(&component);
    list_.push_back(nullptr);
    plugin_.components = list_.data();
  }
  FullDescriptor(const FullDescriptor&) = delete;
  FullDescriptor& operator=(const FullDescriptor&) = delete;

  const cohort_plugin& plugin() const { return plugin_; }

 private:
  cohort_plugin plugin_;
  std::deque<cohort_component> components_;
  std::vector<const cohort_component*> list_;
};

}  // namespace cohort::host
