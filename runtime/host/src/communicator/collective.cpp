#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>

#include "communicator/composed.hpp"
#include "communicator/connected_groups.hpp"
#include "communicator/staging.hpp"
#include "communicator/twins.hpp"
#include "given/given_struct.hpp"
#include "host_object/guarded.hpp"

namespace cohort::host {
namespace {

cohort_status composed_split(cohort_collective* c, cohort_comm* comm, int32_t color, int32_t key,
                             cohort_comm* part) noexcept {
  Collective& collective = Collective::of(c);
  return guarded(c->host,
                 [&] { return collective.groups()->split(c, collective.native().connect, comm, color, key, part); });
}
void composed_close(cohort_collective* c, cohort_comm* comm) noexcept {
  Collective& collective = Collective::of(c);
  if (collective.native().close) collective.native().close(c, comm);
  collective.groups()->remove(comm);
}
void ignore(cohort_collective*, cohort_comm*) noexcept {}
cohort_status no_error(cohort_collective*, cohort_comm*) noexcept {
  return COHORT_OK;
}

// The plugin's table as far as it reaches. What it must have was checked when the plugin was loaded.
cohort_collective_vt native_table(const cohort_component& component) {
  return sdk::own_copy(*static_cast<const cohort_collective_vt*>(component.vtable));
}

const void* no_extension(cohort_collective*, const char*) noexcept {
  return nullptr;
}

template <auto Slot, class Function>
struct Native;

// Calls the plugin; what is left of a failure gets the job's numbers of the ranks that were waited for.
template <auto Slot, class... Args>
struct Native<Slot, cohort_status (*)(cohort_collective*, cohort_comm*, Args...) noexcept> {
  static cohort_status call(cohort_collective* c, cohort_comm* comm, Args... args) noexcept {
    const Collective& collective = Collective::of(c);
    const cohort_status status = (collective.native().*Slot)(c, comm, args...);
    if (status != COHORT_OK) collective.host().number_peers(status, collective.job_ranks(*comm));
    return status;
  }
};

template <auto Slot>
constexpr auto kNative =
    &Native<Slot, std::remove_reference_t<decltype(std::declval<cohort_collective_vt&>().*Slot)>>::call;

// What the plugin has, and for data types that it leaves out what the host composes.
template <auto Slot, auto Composed>
cohort_status native_or_composed(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  const cohort_status status = kNative<Slot>(c, comm, args);
  if (status != COHORT_UNIMPLEMENTED) return status;
  Collective::of(c).host().take_message(status);
  return Composed(c, comm, args);
}

template <auto Slot, auto Composed>
void complete(cohort_collective_vt& table, bool keep) {
  table.*Slot = keep && table.*Slot ? &native_or_composed<Slot, Composed> : Composed;
}

bool keeps_sums(const cohort_collective_vt& table, bool deterministic) {
  constexpr uint32_t kSameBits = COHORT_COLLECTIVE_RANK_ORDERED | COHORT_COLLECTIVE_ROUNDS_ONCE;
  return !deterministic || (table.flags & kSameBits) == kSameBits;
}

// No slot is null afterwards, but those of memory. `deterministic`: sums in rank order, on every collective.
cohort_collective_vt completed(cohort_collective_vt table, bool deterministic) {
  using Table = cohort_collective_vt;
  const bool keep_sums = keeps_sums(table, deterministic);
  if (!table.close) table.close = ignore;
  if (table.split) {
    table.split = kNative<&Table::split>;
  } else {
    table.split = composed_split;
    table.close = composed_close;
  }
  if (!table.abort) table.abort = ignore;
  table.async_error = table.async_error ? kNative<&Table::async_error> : no_error;
  if (table.alloc) table.alloc = kNative<&Table::alloc>;
  table.exchange = kNative<&Table::exchange>;
  complete<&Table::all_reduce, &composed::all_reduce>(table, keep_sums);
  complete<&Table::reduce, &composed::reduce>(table, keep_sums);
  complete<&Table::reduce_scatter, &composed::reduce_scatter>(table, keep_sums);
  complete<&Table::broadcast, &composed::broadcast>(table, true);
  complete<&Table::all_gather, &composed::all_gather>(table, true);
  complete<&Table::all_to_all, &composed::all_to_all>(table, true);
  table.barrier = table.barrier ? kNative<&Table::barrier> : composed::barrier;
  if (!table.get_extension) table.get_extension = no_extension;
  return table;
}

// Calls `visit` with the spec of every collective that this one is made of.
template <class Visit>
void for_parts(const cohort_component& component, const CheckedOptions& options, Visit&& visit) {
  for (uint64_t i = 0; i < component.num_options; ++i) {
    if (component.options[i].type == kCollectiveType)
      visit(parse_spec(options.data()[i].value, component.options[i].key));
  }
}

std::string name_with_parts(const cohort_component& component, const CheckedOptions& options) {
  std::string parts;
  for_parts(component, options, [&](const Spec& part) { parts += (parts.empty() ? "" : ",") + part.name; });
  return std::string(component.name) + (parts.empty() ? "" : "(" + parts + ")");
}

}  // namespace

void open_collective(PluginHost& plugins, const Spec& spec) {
  const cohort_component& component = plugins.open(Kind::kCollective, spec.name);
  const CheckedOptions options =
      check_options({component.options, component.num_options}, spec.options, "collective '" + spec.name + "'");
  for_parts(component, options, [&](const Spec& part) { open_collective(plugins, part); });
}

Collective::Collective(const cohort_component& component, const CheckedOptions& options, HostObject& host,
                       const Use& use)
    : cohort_collective{sizeof(cohort_collective), 0, &table_, nullptr, use.door},
      name_(name_with_parts(component, options)),
      host_(host),
      native_(native_table(component)),
      table_(completed(native_, use.deterministic)) {
  if (!native_.split) groups_ = std::make_unique<ConnectedGroups>();
  if (use.moves == Moves::kCpuMemory) {
    staging_ = std::make_unique<Staging>(*use.device, host, table_);
    table_ = staging_->table();
  }
  if (use.moves == Moves::kDeviceMemory) {
    twins_ = std::make_unique<Twins>();
    if (use.device->vt->alloc_pinned) {
      staging_ = std::make_unique<Staging>(*use.device, host, Twins::host_table(table_));
    }
    table_ = Twins::table(table_, native_, keeps_sums(native_, use.deterministic));
  }
  for (const std::string& warning : options.warnings) host_.log().warning(warning);
  if (!native_.create) return;
  host_.check(native_.create(this, options.data(), options.size()), "collective '" + name_ + "', create");
}

cohort_status Collective::connect(const cohort_connect_args& args, cohort_comm& comm) {
  if (args.job_ranks) job_ranks_.assign(args.job_ranks, args.job_ranks + args.size);
  comm.struct_size = sizeof comm;
  comm.rank = args.rank;
  comm.size = args.size;
  comm.collective = this;
  const cohort_status status = native_.connect(this, &args, &comm);
  if (status != COHORT_OK) host_.number_peers(status, job_ranks_);
  if (status == COHORT_OK && groups_) groups_->add(&comm, args);
  return status;
}

const std::vector<int>& Collective::job_ranks(const cohort_comm& comm) const {
  return groups_ ? groups_->job_ranks(comm) : job_ranks_;
}

Collective::~Collective() {
  if (native_.destroy) native_.destroy(this);
}

}  // namespace cohort::host
