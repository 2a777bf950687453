// Ranks that are threads, each with a Collective made of a component of this program.
#pragma once

#include <functional>

#include <cohort/host/communicator.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/log.hpp>
#include <cohort/host/option_table.hpp>

#include "call_failed.hpp"
#include "memory_store.hpp"
#include "ranks.hpp"

namespace cohort::host {

inline LogSettings silence() {
  LogSettings settings;
  settings.level = LogLevel::kOff;
  return settings;
}

class InProcessRank {
 public:
  InProcessRank(const cohort_component& component, cohort_store* store, int rank, int size, Collective::Use use)
      : log_(silence()),
        host_(log_),
        collective_(component, check_options({component.options, component.num_options}, {}, "test"), host_,
                    with_door(use)) {
    cohort_connect_args args{};
    args.struct_size = sizeof args;
    args.rank = rank;
    args.size = size;
    args.device_type = COHORT_DEVICE_CPU;
    args.timeout_ns = std::chrono::nanoseconds(std::chrono::seconds(20)).count();
    args.store = store;
    args.name = "test";
    host_.check(collective_.connect(args, comm_), "connect");
  }
  ~InProcessRank() { table().close(collective_.get(), &comm_); }
  InProcessRank(const InProcessRank&) = delete;
  InProcessRank& operator=(const InProcessRank&) = delete;

  int rank() const { return comm_.rank; }
  int size() const { return comm_.size; }
  cohort_comm* comm() { return &comm_; }
  const cohort_collective_vt& table() { return *collective_.get()->vt; }

  /// Runs a slot of the completed table.
  void run(decltype(cohort_collective_vt::all_reduce) operation, cohort_op_args args) {
    args.struct_size = sizeof args;
    if (args.stream.device_type == 0) args.stream.device_type = COHORT_DEVICE_CPU;
    const cohort_status status = operation(collective_.get(), &comm_, &args);
    if (status != COHORT_OK) throw test::CallFailed(status, host_.take_message(status));
  }

 private:
  Collective::Use with_door(Collective::Use use) {
    use.door = host_.get();
    return use;
  }

  Log log_;
  HostObject host_;
  Collective collective_;
  cohort_comm comm_{};
};

inline void on_threads(const cohort_component& component, int size, const std::function<void(InProcessRank&)>& body,
                       bool deterministic = false) {
  test::MemoryStore store;
  test::run_as_threads(size, [&](int rank) {
    InProcessRank one(component, store.handle(), rank, size, {.door = nullptr, .deterministic = deterministic});
    body(one);
  });
}

}  // namespace cohort::host
