// A communicator of the running job and operations on it, as calls that throw.
//
// A Comm is a borrowed handle, valid until the end of the run; copy it freely. Threads: as cohort/api/host/comm.h says.
#pragma once

#include <cohort/api/host/comm.h>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/span.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// What an operation works on: `count` elements of `dtype`, ordered by `stream`.
struct Elements {
  void* data;
  uint64_t count;
  int32_t dtype;
  cohort_stream stream{nullptr, COHORT_DEVICE_CPU, 0};
};

class Comm {
 public:
  Comm(const cohort_host* host, const cohort_comm_1& table, cohort_comm* comm)
      : host_(host), table_(&table), comm_(comm) {}

  /// False where this rank has no such communicator; then nothing else may be called.
  explicit operator bool() const { return comm_ != nullptr; }
  int rank() const { return comm_->rank; }
  int size() const { return comm_->size; }
  cohort_comm* raw() const { return comm_; }

  void all_reduce(const Elements& in_place, int32_t reduce) const {
    const auto args = operation(in_place.data, in_place, reduce, 0);
    check(table_->all_reduce(host_, comm_, &args));
  }
  /// `input` stays as it is; `output` does not overlap with it.
  void all_reduce(const Elements& input, void* output, int32_t reduce) const {
    const auto args = operation(output, input, reduce, 0);
    check(table_->all_reduce(host_, comm_, &args));
  }
  /// The result is in `in_place` on rank `root` alone.
  void reduce(const Elements& in_place, int32_t reduce, int32_t root) const {
    const auto args = operation(in_place.data, in_place, reduce, root);
    check(table_->reduce(host_, comm_, &args));
  }
  void broadcast(const Elements& in_place, int32_t root) const {
    const auto args = operation(in_place.data, in_place, 0, root);
    check(table_->broadcast(host_, comm_, &args));
  }
  /// `output` holds size() x input.count elements.
  void all_gather(const Elements& input, void* output) const {
    const auto args = operation(output, input, 0, 0);
    check(table_->all_gather(host_, comm_, &args));
  }
  /// `input` holds size() x output_count elements; this rank gets its piece of the reduced whole.
  void reduce_scatter(const Elements& input, void* output, uint64_t output_count, int32_t reduce) const {
    auto args = operation(output, input, reduce, 0);
    args.count = output_count;
    check(table_->reduce_scatter(host_, comm_, &args));
  }
  /// `input` and `output` hold a piece of `piece_count` elements for each rank.
  void all_to_all(const Elements& input, void* output, uint64_t piece_count) const {
    auto args = operation(output, input, 0, 0);
    args.count = piece_count;
    check(table_->all_to_all(host_, comm_, &args));
  }
  void exchange(Span<const cohort_message> messages, cohort_stream stream = {nullptr, COHORT_DEVICE_CPU, 0}) const {
    cohort_exchange_args args{};
    args.struct_size = sizeof args;
    args.messages = messages.data();
    args.num_messages = messages.size();
    args.stream = stream;
    check(table_->exchange(host_, comm_, &args));
  }
  void barrier() const { check(table_->barrier(host_, comm_)); }

 private:
  static cohort_op_args operation(void* output, const Elements& input, int32_t reduce, int32_t root) {
    cohort_op_args args{};
    args.struct_size = sizeof args;
    args.dtype = input.dtype;
    args.reduce = reduce;
    args.root = root;
    args.input = input.data;
    args.output = output;
    args.count = input.count;
    args.stream = input.stream;
    return args;
  }

  const cohort_host* host_;
  const cohort_comm_1* table_;
  cohort_comm* comm_;
};

}  // namespace v1
}  // namespace cohort::sdk
