// The checksum of a text within itself: the last two lines of an object in JSON are
//
//   "sha256": "digest of all lines before"
//  }
#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// Adds the checksum to an object that nlohmann::json has written in lines, indented by one blank.
std::string sealed(std::string_view object);

enum class Seal { kNone, kWhole, kBroken };
/// Says whether the text has a checksum, and whether it is that of the text.
Seal seal_of(std::string_view text);

}  // namespace cohort
