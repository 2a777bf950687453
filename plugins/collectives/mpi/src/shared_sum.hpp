// Sums in memory that all ranks map: each rank reduces its piece from where it lies in every rank's memory, and writes
// the result to where it is wanted. Two small messages to each rank: "here my data lie", and "I have written".
//
// Of one operation, which ends before this does; used by its thread.
#pragma once

#include <vector>

#include "operation.hpp"
#include "ordered_sum.hpp"

namespace cohort::mpi {

class SharedSum {
 public:
  SharedSum(Communicator& communicator, const cohort_op_args& args, OrderedSum::Results results);

  /// Starts to tell the others, in messages with the tag `mark`, where this rank's data lie: `input_nbytes` are
  /// reduced.
  void announce(Operation& operation, int mark, uint64_t input_nbytes);
  /// True where the data of all ranks are shared: the same on all ranks. Waits only where the own are.
  bool is_possible(Operation& operation);
  /// Takes the sum of `piece`, this rank's, and returns when all ranks have taken theirs.
  void run(Operation& operation, int mark, const OrderedSum::Piece& piece);

 private:
  /// Where a rank's data lie.
  struct Places {
    Place input, output;
    bool is_shared;
    bool has_written;
  };

  Communicator& communicator_;
  const cohort_op_args& args_;
  const OrderedSum::Results results_;
  uint64_t nbytes_ = 0;
  std::vector<Places> places_;  // by rank
  std::size_t first_ = 0, last_ = 0;

  bool wants(int rank) const;
  Places own_places() const;
  void reduce(const OrderedSum::Piece& piece) const;
};

}  // namespace cohort::mpi
