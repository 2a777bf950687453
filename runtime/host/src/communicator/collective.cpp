#include <algorithm>
#include <cstring>

#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

cohort_status missing(const cohort_collective* c, const char* operation) noexcept {
  const std::string message = std::string("this collective has no ") + operation;
  return c->host->fail(c->host, COHORT_UNIMPLEMENTED, message.c_str());
}

cohort_status no_split(cohort_collective* c, cohort_comm*, int32_t, int32_t, cohort_comm*) noexcept {
  return missing(c, "split");
}
cohort_status no_exchange(cohort_collective* c, cohort_comm*, const cohort_exchange_args*) noexcept {
  return missing(c, "exchange");
}
cohort_status no_all_reduce(cohort_collective* c, cohort_comm*, const cohort_op_args*) noexcept {
  return missing(c, "all_reduce");
}
cohort_status no_broadcast(cohort_collective* c, cohort_comm*, const cohort_op_args*) noexcept {
  return missing(c, "broadcast");
}
cohort_status no_all_gather(cohort_collective* c, cohort_comm*, const cohort_op_args*) noexcept {
  return missing(c, "all_gather");
}
cohort_status no_barrier(cohort_collective* c, cohort_comm*) noexcept {
  return missing(c, "barrier");
}
void ignore_close(cohort_collective*, cohort_comm*) noexcept {}

// The plugin's table as far as it reaches, completed, so that nobody tests for null.
cohort_collective_vt completed(const cohort_component& component) {
  const auto& given = *static_cast<const cohort_collective_vt*>(component.vtable);
  cohort_collective_vt table{};
  std::memcpy(&table, &given, std::min<size_t>(given.struct_size, sizeof table));
  table.struct_size = sizeof table;
  if (!table.connect) {
    throw PluginRefused("collective '" + std::string(component.name) + "' has no connect; ask its author for one");
  }
  if (!table.split) table.split = no_split;
  if (!table.close) table.close = ignore_close;
  if (!table.abort) table.abort = ignore_close;
  if (!table.exchange) table.exchange = no_exchange;
  if (!table.all_reduce) table.all_reduce = no_all_reduce;
  if (!table.broadcast) table.broadcast = no_broadcast;
  if (!table.all_gather) table.all_gather = no_all_gather;
  if (!table.barrier) table.barrier = no_barrier;
  return table;
}

}  // namespace

Collective::Collective(const cohort_component& component, const CheckedOptions& options, HostObject& host)
    : name_(component.name), host_(host), table_(completed(component)), collective_{&table_, nullptr, host.get()} {
  if (!table_.create) return;
  host_.check(table_.create(&collective_, options.data(), options.size()), "collective '" + name_ + "', create");
}

Collective::~Collective() {
  if (table_.destroy) table_.destroy(&collective_);
}

}  // namespace cohort::host
