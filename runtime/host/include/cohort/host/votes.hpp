// What ranks tell each other with every step.
#pragma once

namespace cohort {

/// OR-reduced over the ranks: true where any rank says so.
struct Votes {
  bool stop = false;         ///< end training after this step
  bool out_of_data = false;  ///< this rank has no further batch
};

}  // namespace cohort
