// How a message shows what each rank has said.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cohort::host {

/// Returns one text for the texts of all ranks, ranks of one text together and the lowest rank first; with ": " as
/// `link`: "rank 0: a; ranks 1, 2: b". Any thread.
std::string texts_by_rank(std::span<const std::string> texts, std::string_view link);

}  // namespace cohort::host
