#include "given/given_struct.hpp"

#include <iomanip>
#include <sstream>

#include <cohort/api/version.h>

namespace cohort::host {
namespace {

constexpr uint32_t kLongestStruct = 4096;  // more is no length

std::string hex(uint32_t number) {
  std::ostringstream text;
  text << "0x" << std::hex << number;
  return text.str();
}

}  // namespace

std::string length_problem(const void* given, const GivenLength& length, std::string_view type) {
  const std::string name(type);
  if (length.claimed < length.least || length.claimed > kLongestStruct) {
    return "has a " + name + " of " + std::to_string(length.claimed) + " bytes; set its struct_size to sizeof(" + name +
           ")";
  }
  if (length.may_exceed) return "";
  const auto* const bytes = static_cast<const unsigned char*>(given);
  for (uint32_t i = length.known; i < length.claimed; ++i) {
    if (bytes[i] == 0) continue;
    return "sets byte " + std::to_string(i) + " of its " + name + ", of which this cohort knows " +
           std::to_string(length.known) + "; update cohort, or build the plugin with a COHORT_TARGET_ABI of " +
           hex(COHORT_ABI_VERSION) + " or less";
  }
  return "";
}

std::string flags_problem(uint32_t flags, uint32_t known, std::string_view type) {
  const uint32_t unknown = flags & ~known;
  if (unknown == 0) return "";
  return "sets the flags " + hex(unknown) + " of its " + std::string(type) +
         ", which this cohort does not know; update cohort, or clear them";
}

std::string reserved_problem(uint32_t reserved, std::string_view type) {
  if (reserved == 0) return "";
  return "sets a reserved field of its " + std::string(type) + "; set it to 0";
}

}  // namespace cohort::host
