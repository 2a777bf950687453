// What ranks tell each other with every step.
#pragma once

namespace cohort {

/// OR-reduced over the ranks: true where any rank says so.
struct Votes {
  bool stop = false;         ///< end training after this step
  bool out_of_data = false;  ///< this rank has no further batch
  bool overflow = false;     ///< with a loss scale: a gradient is not finite, and the optimizer's step is left out

  friend Votes operator|(Votes a, Votes b) {
    return {a.stop || b.stop, a.out_of_data || b.out_of_data, a.overflow || b.overflow};
  }
};

}  // namespace cohort
