// Sums of 16-bit elements that are rounded once, on the device: each rank gets all ranks' pieces of its part of the
// elements and adds them up in rank order, by a kernel of the accelerator. No more bytes are sent than a ring sends.
//
// The bits are those of a float32 sum from the first rank to the last; a mean divides it by the number of ranks. An
// object serves one operation, with checked arguments. Threads: as the communicator's.
#pragma once

#include <vector>

#include <cohort/sdk/host.hpp>

#include "link.hpp"
#include "scratch.hpp"

namespace cohort::nccl {

class ExactSums {
 public:
  ExactSums(const sdk::Host& host, ScratchPool& pool, Link& link, const cohort_op_args& args)
      : host_(host), pool_(pool), link_(link), args_(args) {}

  void all_reduce();
  void reduce();
  void reduce_scatter();

 private:
  // The elements of each rank's part, and the first one's number.
  struct Parts {
    std::vector<uint64_t> counts, firsts;
  };

  const sdk::Host& host_;
  ScratchPool& pool_;
  Link& link_;
  const cohort_op_args& args_;

  static Parts parts_of(std::vector<uint64_t> counts);
  Parts even_parts() const;
  static uint64_t nbytes(const Parts& parts, int rank);
  static std::byte* at(const void* whole, const Parts& parts, int rank);
  void sum_own_part(const char* name, const Parts& parts, void* output);
  void add_up(const Scratch& pieces, const void* own, const sdk::Elements& output);
  void add_up_and_divide(const Scratch& pieces, const sdk::Elements& output);
};

}  // namespace cohort::nccl
