// A communicator over NCCL: checks arguments, and turns operations into NCCL's.
//
// The host composes (COHORT_UNIMPLEMENTED) all that NCCL cannot do with the bits that the ABI promises: int16, bit-or,
// and products of 16-bit floating types. Sums of these, which NCCL rounds at every hop, are made of messages and the
// accelerator's kernels (exact_sums.hpp), unless the option sums=nccl asks for NCCL's. A mean of other types is the
// sum, multiplied by 1 / size by the accelerator's kernel: ncclAvg rounds 1 / size to the type first.
//
// Threads: as cohort/api/collective.h says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cohort/sdk/communicator.hpp>
#include <cohort/sdk/host.hpp>

#include "exact_sums.hpp"
#include "link.hpp"
#include "scratch.hpp"
#include "watch.hpp"

namespace cohort::nccl {

/// The things that a root communicator and its parts share.
struct Family {
  Family(const sdk::Host& given_host, const cohort_connect_args& args, bool takes_own_sums,
         const std::shared_ptr<const Surroundings>& around);

  const sdk::Host& host;
  bool own_sums;  // NCCL's, of 16-bit types
  cohort_connect_args group;
  std::vector<int32_t> job_ranks;
  std::string name;
  ScratchPool scratch;
  Watch watch;
  int num_parts = 0;
};

class Communicator : public sdk::Communicator<Communicator> {
 public:
  Communicator(std::shared_ptr<Family> family, std::shared_ptr<Link> link);
  ~Communicator() { link_->close(); }

  int rank() const { return link_->rank(); }
  int size() const { return link_->size(); }

  std::unique_ptr<Communicator> split(int32_t color, int32_t key);
  void abort() { link_->abort(); }
  void check_async() { link_->check(); }

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream);
  void all_reduce(const cohort_op_args& args);
  void reduce(const cohort_op_args& args);
  void broadcast(const cohort_op_args& args);
  void all_gather(const cohort_op_args& args);
  void reduce_scatter(const cohort_op_args& args);
  void all_to_all(const cohort_op_args& args);

 private:
  enum class Way { kNccl, kExactSum };

  std::shared_ptr<Family> family_;
  std::shared_ptr<Link> link_;

  const Nccl& nccl() const { return link_->around().nccl; }
  void require_device_memory(const cohort_stream& stream, const char* who) const;
  /// Checks the arguments; returns how a reduction is made. Throws UNIMPLEMENTED for what the host has to compose.
  Way way_of(const cohort_op_args& args, const char* who, bool may_scale_first) const;
  ExactSums exact(const cohort_op_args& args) const;
  void scale(const cohort_op_args& args, const void* input, uint64_t count) const;
  /// Runs a reduction; of a mean this rank gets `output_count` elements.
  template <class Call>
  void run_reduction(const char* name, const cohort_op_args& args, uint64_t output_count, Call&& call);
};

}  // namespace cohort::nccl
