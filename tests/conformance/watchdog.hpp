// Ends the program where a test does not end.
#pragma once

#include <string>

namespace cohort::conformance {

/// From now on a test that takes longer ends the program with exit code 1, after `text` on standard error.
void watch_tests(unsigned seconds_of_a_test, const std::string& text);

}  // namespace cohort::conformance
