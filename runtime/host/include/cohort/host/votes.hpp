// What ranks tell each other with every step.
#pragma once

namespace cohort {

/// OR-reduced over the ranks: true where any rank says so.
struct Votes {
  bool stop = false;         ///< end training after this step
  bool out_of_data = false;  ///< this rank has no further batch

  friend Votes operator|(Votes a, Votes b) { return {a.stop || b.stop, a.out_of_data || b.out_of_data}; }
};

}  // namespace cohort
