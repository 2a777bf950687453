#include "report/progress_text.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace cohort {
namespace {

TEST(ProgressText, BarIsFilledByTheShareThatIsDone) {
  EXPECT_EQ(bar_text(0, 4, 8), "[        ] 0/4");
  EXPECT_EQ(bar_text(1, 4, 8), "[##      ] 1/4");
  EXPECT_EQ(bar_text(4, 4, 8), "[########] 4/4");
  EXPECT_EQ(bar_text(9, 4, 8), "[########] 9/4") << "a limit that was passed";
  EXPECT_EQ(bar_text(7, 0), "7") << "a stream";
}

TEST(ProgressText, ClockHasHoursOnlyIfThereAreSome) {
  EXPECT_EQ(clock_text(0), "0:00");
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(754), "12:34");
  EXPECT_EQ(clock_text(3 * 3600 + 5 * 60 + 7), "3:05:07");
  for (const double unknown : {-1.0, static_cast<double>(INFINITY), std::nan("")})
    EXPECT_EQ(clock_text(unknown), "-:--");
}

TEST(ProgressText, TheRestTakesAsLongAsWhatIsDone) {
  EXPECT_DOUBLE_EQ(seconds_left(10, 40, 5), 15);
  EXPECT_DOUBLE_EQ(seconds_left(40, 40, 5), 0);
  EXPECT_DOUBLE_EQ(seconds_left(50, 40, 5), 0);
  EXPECT_LT(seconds_left(0, 40, 5), 0);
  EXPECT_LT(seconds_left(5, 0, 5), 0);
}

}  // namespace
}  // namespace cohort
