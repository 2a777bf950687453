#include "metrics/metric_name.hpp"

#include <algorithm>

#include "weights/safetensors_header.hpp"

namespace cohort {

bool is_metric_name(std::string_view name) {
  constexpr unsigned char kDelete = 127;
  const auto allowed = [](unsigned char c) { return c >= ' ' && c != ',' && c != '"' && c != kDelete; };
  return !name.empty() && std::all_of(name.begin(), name.end(), allowed) && is_utf8(name);
}

}  // namespace cohort
