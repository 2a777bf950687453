// Communicators of the running job and operations on them, as calls that throw.
//
//   Comm world = host().world();                            // borrowed from the host
//   OwnedComm pairs = world.split(rank / 2, rank, "pairs");  // closed by its destructor
//   pairs.all_reduce({data, count, COHORT_FLOAT32}, COHORT_REDUCE_SUM);
//
// A Comm is a borrowed handle: copy it freely, and use it only while its owner lives. Threads: see
// cohort/api/host/comm.h.
#pragma once

#include <string>
#include <utility>

#include <cohort/api/host/comm.h>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/span.hpp>

namespace cohort::sdk {
inline namespace v1 {

class OwnedComm;

/// Data of an operation, borrowed: `count` elements of `dtype`. `stream` orders the operation.
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

  /// Returns false if this rank has no such communicator. Then no other method may be called.
  explicit operator bool() const { return comm_ != nullptr; }
  int rank() const { return comm_->rank; }
  int size() const { return comm_->size; }
  cohort_comm* raw() const { return comm_; }

  /// Returns the communicator of the ranks with the same color, ordered by key; none if color < 0. Its operations run
  /// on `lane`. Collective.
  OwnedComm split(int32_t color, int32_t key, const char* name = "part", uint32_t lane = 0) const;
  /// Makes this rank's operations fail soon. For the plugin's own communicators only.
  void abort() const { check(table_->abort(host_, comm_)); }
  /// Returns memory that operations use without a copy, until it is released or the communicator is closed. Collective.
  void* alloc(uint64_t nbytes) const {
    void* memory = nullptr;
    check(table_->alloc(host_, comm_, nbytes, &memory));
    return memory;
  }
  void release(void* memory) const { check(table_->release(host_, comm_, memory)); }

  void all_reduce(const Elements& in_place, int32_t reduce) const {
    all_reduce(operation(in_place.data, in_place, reduce, 0));
  }
  /// Reduces `input`, which stays unchanged, into `output`. They do not overlap.
  void all_reduce(const Elements& input, void* output, int32_t reduce) const {
    all_reduce(operation(output, input, reduce, 0));
  }
  /// Reduces `in_place` over the ranks. Only rank `root` gets the result.
  void reduce(const Elements& in_place, int32_t reduce, int32_t root) const {
    this->reduce(operation(in_place.data, in_place, reduce, root));
  }
  void broadcast(const Elements& in_place, int32_t root) const {
    broadcast(operation(in_place.data, in_place, 0, root));
  }
  /// Gathers all inputs in `output`, which holds size() x input.count elements.
  void all_gather(const Elements& input, void* output) const { all_gather(operation(output, input, 0, 0)); }
  /// Reduces `input`, which holds size() x output_count elements, and writes this rank's piece to `output`.
  void reduce_scatter(const Elements& input, void* output, uint64_t output_count, int32_t reduce) const {
    auto args = operation(output, input, reduce, 0);
    args.count = output_count;
    reduce_scatter(args);
  }
  /// Exchanges pieces: `input` and `output` hold one piece of `piece_count` elements for each rank.
  void all_to_all(const Elements& input, void* output, uint64_t piece_count) const {
    auto args = operation(output, input, 0, 0);
    args.count = piece_count;
    all_to_all(args);
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

  // These overloads use every field of cohort_op_args.
  void all_reduce(const cohort_op_args& args) const { check(table_->all_reduce(host_, comm_, &args)); }
  void reduce(const cohort_op_args& args) const { check(table_->reduce(host_, comm_, &args)); }
  void broadcast(const cohort_op_args& args) const { check(table_->broadcast(host_, comm_, &args)); }
  void all_gather(const cohort_op_args& args) const { check(table_->all_gather(host_, comm_, &args)); }
  void reduce_scatter(const cohort_op_args& args) const { check(table_->reduce_scatter(host_, comm_, &args)); }
  void all_to_all(const cohort_op_args& args) const { check(table_->all_to_all(host_, comm_, &args)); }

 protected:
  Comm() = default;
  void close() noexcept {
    if (comm_) table_->close(host_, comm_);
    comm_ = nullptr;
  }
  cohort_comm* hand_over() noexcept { return std::exchange(comm_, nullptr); }

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

  const cohort_host* host_ = nullptr;
  const cohort_comm_1* table_ = nullptr;
  cohort_comm* comm_ = nullptr;
};

/// A communicator that the plugin owns: its destructor closes it. First destroy those split from it.
class OwnedComm : public Comm {
 public:
  /// Holds no communicator: false in a bool context.
  OwnedComm() = default;
  explicit OwnedComm(const Comm& made) : Comm(made) {}
  ~OwnedComm() { close(); }
  OwnedComm(OwnedComm&& other) noexcept : Comm(other) { other.hand_over(); }
  OwnedComm& operator=(OwnedComm&& other) noexcept {
    if (this == &other) return *this;
    close();
    Comm::operator=(other);
    other.hand_over();
    return *this;
  }
  /// Gives up ownership of the returned communicator: the host closes it.
  using Comm::hand_over;
};

inline OwnedComm Comm::split(int32_t color, int32_t key, const char* name, uint32_t lane) const {
  cohort_comm* part = nullptr;
  check(table_->split(host_, comm_, lane, name, color, key, &part));
  return OwnedComm(Comm(host_, *table_, part));
}

}  // namespace v1
}  // namespace cohort::sdk
