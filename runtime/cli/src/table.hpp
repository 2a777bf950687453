// Rows of text with aligned columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::cli {

using Table = std::vector<std::vector<std::string>>;

/// Each row on a line that begins with `indent`; the last column is not padded.
std::string table_text(const Table& table, std::string_view indent);

}  // namespace cohort::cli
