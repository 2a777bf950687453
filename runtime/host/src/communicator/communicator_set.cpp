#include <ranges>

#include <cohort/host/communicator.hpp>

namespace cohort::host {
namespace {

HostObject& host_of(const cohort_comm* comm) {
  return HostObject::of(comm->collective->host);
}

}  // namespace

CommunicatorSet::~CommunicatorSet() {
  for (auto& comm : comms_ | std::views::reverse) comm->collective->vt->close(comm->collective, comm.get());
}

cohort_comm* CommunicatorSet::connect(Collective& collective, const cohort_connect_args& args) {
  auto comm = std::make_unique<cohort_comm>();
  comm->struct_size = sizeof(cohort_comm);
  comm->rank = args.rank;
  comm->size = args.size;
  comm->collective = collective.get();
  collective.host().check(collective.table().connect(collective.get(), &args, comm.get()),
                          "collective '" + collective.name() + "', connect");
  return comms_.emplace_back(std::move(comm)).get();
}

cohort_comm* CommunicatorSet::split(cohort_comm* comm, int color, int key) {
  auto part = std::make_unique<cohort_comm>();
  part->struct_size = sizeof(cohort_comm);
  part->collective = comm->collective;
  host_of(comm).check(comm->collective->vt->split(comm->collective, comm, color, key, part.get()),
                      "splitting a communicator");
  if (color < 0) return nullptr;
  return comms_.emplace_back(std::move(part)).get();
}

void CommunicatorSet::abort() {
  for (auto& comm : comms_) comm->collective->vt->abort(comm->collective, comm.get());
}

}  // namespace cohort::host
