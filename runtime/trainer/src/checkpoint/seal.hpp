// The seal of a JSON text: a checksum that the text itself ends with. The last two lines are
//
//   "sha256": "digest of all lines before"
//  }
#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// Returns the text with a seal. `object` is what nlohmann::json's dump(1) writes for an object.
std::string sealed(std::string_view object);

enum class Seal { kNone, kWhole, kBroken };
/// Returns kNone for a text without a seal, kWhole if the checksum matches, and kBroken if it does not.
Seal seal_of(std::string_view text);

}  // namespace cohort
