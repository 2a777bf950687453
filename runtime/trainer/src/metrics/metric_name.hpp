// The names of metrics and hyper-parameters: columns of tables, tensors of checkpoints, tags of dashboards.
#pragma once

#include <string_view>

namespace cohort {

/// Returns whether the name can stand in every place that names are written to, and is read back as it is there: it is
/// not empty, UTF-8, and free of commas, double quotes and control characters.
bool is_metric_name(std::string_view name);

/// Completes the message on a name that is refused.
constexpr const char* kCannotHeadAColumn = " has a name that cannot head a column; use letters, digits and _";

}  // namespace cohort
