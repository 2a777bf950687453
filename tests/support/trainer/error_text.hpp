// The message of the exception that a call throws.
#pragma once

#include <string>

/// "" where nothing of that kind is thrown.
template <class Expected, class Call>
std::string error_text(Call&& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}
