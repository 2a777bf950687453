// A communicator that a collective made of others works with, as calls that throw.
//
//   Wire node = Wire::open(host(), "shm", group);   // in connect
//   Wire part = node.split(color, key);             // closed by its destructor
//   node.all_reduce(args);
//
// Unlike Comm, which runs on a lane and counts bytes, a Wire acts at once on the calling thread: the lane that called
// the collective. Threads: as cohort/api/collective.h says for each slot.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <cohort/sdk/host.hpp>

namespace cohort::sdk {
inline namespace v1 {

class Wire {
 public:
  /// No communicator: false in a bool context.
  Wire() = default;

  /// A root communicator of a group, made by another collective (comm/1.open). The host owns it. Collective.
  static Wire open(const Host& host, const std::string& spec, const cohort_connect_args& group) {
    cohort_comm* comm = nullptr;
    check(host.comm_service().open(host.raw(), spec.c_str(), &group, &comm));
    return Wire({comm, [](cohort_comm*) {}});
  }
  /// A part, owned by what is returned; none where color < 0. Collective.
  Wire split(int32_t color, int32_t key) const {
    auto part = std::make_unique<cohort_comm>();
    part->struct_size = sizeof(cohort_comm);
    part->collective = comm_->collective;
    check(vt().split(comm_->collective, raw(), color, key, part.get()));
    if (color < 0) return {};
    return Wire({part.release(), [](cohort_comm* comm) {
                   comm->collective->vt->close(comm->collective, comm);
                   delete comm;
                 }});
  }

  explicit operator bool() const { return comm_ != nullptr; }
  int rank() const { return comm_->rank; }
  int size() const { return comm_->size; }
  cohort_comm* raw() const { return comm_.get(); }
  const cohort_collective_vt& vt() const { return *comm_->collective->vt; }

  void abort() const { vt().abort(comm_->collective, raw()); }
  void check_async() const { check(vt().async_error(comm_->collective, raw())); }
  /// Memory of a root communicator, where its collective has such.
  bool has_memory() const { return vt().alloc && vt().free; }
  void* alloc(uint64_t nbytes) const {
    void* memory = nullptr;
    check(vt().alloc(comm_->collective, raw(), nbytes, &memory));
    return memory;
  }
  void free(void* memory) const { vt().free(comm_->collective, raw(), memory); }

  void all_reduce(const cohort_op_args& args) const { run(vt().all_reduce, args); }
  void reduce(const cohort_op_args& args) const { run(vt().reduce, args); }
  void broadcast(const cohort_op_args& args) const { run(vt().broadcast, args); }
  void all_gather(const cohort_op_args& args) const { run(vt().all_gather, args); }
  void reduce_scatter(const cohort_op_args& args) const { run(vt().reduce_scatter, args); }
  void all_to_all(const cohort_op_args& args) const { run(vt().all_to_all, args); }
  void barrier() const { check(vt().barrier(comm_->collective, raw())); }
  void exchange(Span<const cohort_message> messages, const cohort_stream& stream) const {
    const cohort_exchange_args args{sizeof args, 0, messages.data(), messages.size(), stream};
    check(vt().exchange(comm_->collective, raw(), &args));
  }

 private:
  using Handle = std::unique_ptr<cohort_comm, void (*)(cohort_comm*)>;
  explicit Wire(Handle comm) : comm_(std::move(comm)) {}
  void run(decltype(cohort_collective_vt::all_reduce) operation, const cohort_op_args& args) const {
    check(operation(comm_->collective, raw(), &args));
  }

  Handle comm_{nullptr, [](cohort_comm*) {}};
};

}  // namespace v1
}  // namespace cohort::sdk
