// Sums left to right in rank order, from memory that ranks share or from messages: the same bits on every rank and as
// on any other collective that does so; 16-bit types are taken in float32 and rounded once.
//
// MPI's blocking all-reduce has no deadline, and its nonblocking one takes a half more to many times the time between
// few ranks (Open MPI 4.1). Every rank reduces a piece of the whole and hands on the result, segment by segment; of
// little data every rank gets everything at once.
#pragma once

#include <vector>

#include "operation.hpp"

namespace cohort::mpi {

/// One operation of checked arguments, on a thread.
class OrderedSum {
 public:
  /// Elements that one rank reduces.
  struct Piece {
    const std::byte* input;
    std::byte* output;  // where its result goes; null where this rank gets none
    uint64_t nbytes;
  };
  enum class Results { kToAll, kToRoot, kStay };

  OrderedSum(Communicator& communicator, const cohort_op_args& args) : communicator_(communicator), args_(args) {}

  void all_reduce();
  void reduce();
  void reduce_scatter();

 private:
  Communicator& communicator_;
  const cohort_op_args& args_;

  int size() const { return communicator_.size(); }
  int rank() const { return communicator_.rank(); }
  int tag(uint64_t kind, Results results) const;
  std::vector<Piece> even_pieces(std::byte* output) const;
  std::vector<Piece> all_of_first(std::byte* output) const;
  void copy_alone() const;
  bool is_for_at_once(uint64_t nbytes) const;
  void at_once(Operation& operation);
  /// In shared memory where it is, else from messages.
  void in_pieces(const char* name, const std::vector<Piece>& pieces, Results results);
  void from_messages(Operation& operation, const std::vector<Piece>& pieces, Results results);
  void send(Operation& operation, int owner, const Piece& piece, int mark) const;
  void reduce_own(Operation& operation, const Piece& own, Results results);
};

}  // namespace cohort::mpi
