#include <string>

#include <cohort/sdk/operation_checks.hpp>

#include "operations.hpp"

namespace cohort::shm {

namespace {

void require_cpu(const cohort_op_args& args, const char* who) {
  if (args.stream.device_type == COHORT_DEVICE_CPU || args.stream.device_type == 0) return;
  throw sdk::invalid_argument(std::string(who) +
                              " works on CPU memory only; choose another collective for this device");
}

void require_memory(bool is_given, uint64_t count, const char* who) {
  if (count != 0 && !is_given) throw sdk::invalid_argument(std::string(who) + " was given no memory");
}

// `whole` and `piece` are the memory of all pieces and of this rank's. The pieces have passed the checks.
void require_memory_of_pieces(const cohort_op_args& args, const void* whole, const void* piece, int rank, int size,
                              const char* who) {
  uint64_t all = 0;
  for (int r = 0; r < size; ++r) all += args.counts ? args.counts[r] : args.count;
  require_memory(whole, all, who);
  require_memory(piece, args.counts ? args.counts[rank] : args.count, who);
}

}  // namespace

void check_all_reduce(const cohort_op_args& args, int size) {
  constexpr const char* kWho = "shm all_reduce";
  require_cpu(args, kWho);
  sdk::check_reduction(args, size, kWho);
  require_memory(args.input && args.output, args.count, kWho);
}

void check_reduce(const cohort_op_args& args, int rank, int size) {
  constexpr const char* kWho = "shm reduce";
  require_cpu(args, kWho);
  sdk::check_reduction(args, size, kWho);
  sdk::check_root(args, size, kWho);
  require_memory(args.input && (args.output || rank != args.root), args.count, kWho);
}

void check_broadcast(const cohort_op_args& args, int rank, int size) {
  constexpr const char* kWho = "shm broadcast";
  require_cpu(args, kWho);
  sdk::check_elements(args, size, kWho);
  sdk::check_root(args, size, kWho);
  require_memory(args.output && (args.input || rank != args.root), args.count, kWho);
}

void check_all_gather(const cohort_op_args& args, int rank, int size) {
  constexpr const char* kWho = "shm all_gather";
  require_cpu(args, kWho);
  sdk::check_pieces(args, size, kWho);
  require_memory_of_pieces(args, args.output, args.input, rank, size, kWho);
}

void check_reduce_scatter(const cohort_op_args& args, int rank, int size) {
  constexpr const char* kWho = "shm reduce_scatter";
  require_cpu(args, kWho);
  sdk::check_reduction(args, size, kWho);
  sdk::check_pieces(args, size, kWho);
  require_memory_of_pieces(args, args.input, args.output, rank, size, kWho);
}

}  // namespace cohort::shm
