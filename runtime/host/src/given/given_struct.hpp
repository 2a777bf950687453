// Structs that plugins build, with a length of their own: what the host can read of them, in a struct of its own.
//
// A plugin may know fewer fields than this host, which are then zero, or more: those must be zero, because the plugin
// would count on what this host does not do. cohort/api/version.h states the rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cohort/host/error.hpp>
#include <cohort/sdk/own_copy.hpp>

namespace cohort::host {

/// Bytes of a struct as a plugin claims it, and what this host knows of it.
struct GivenLength {
  uint32_t claimed;         ///< its struct_size
  uint32_t least;           ///< that every version had
  uint32_t known;           ///< of this host's
  bool may_exceed = false;  ///< the plugin can do without what this host does not know
};

/// Returns what is wrong with a struct of this length and how to mend it, or "". `type` is its name in C.
std::string length_problem(const void* given, const GivenLength& length, std::string_view type);

/// Returns what is wrong with the flags, or "".
std::string flags_problem(uint32_t flags, uint32_t known, std::string_view type);

/// Returns "" if a reserved field of a struct is zero.
std::string reserved_problem(uint32_t reserved, std::string_view type);

/// Returns sdk::own_copy of an argument that a plugin built. Throws UserError, which begins with `where`
/// ("comm/1.open"), for one of an impossible length.
template <class T>
T checked_copy(const T& given, uint32_t least, const char* where, const char* type) {
  if (given.struct_size != sizeof(T)) {
    const std::string problem = length_problem(&given, {given.struct_size, least, sizeof(T)}, type);
    if (!problem.empty()) throw UserError(std::string(where) + " was given what " + problem);
  }
  return sdk::own_copy(given);
}

}  // namespace cohort::host
