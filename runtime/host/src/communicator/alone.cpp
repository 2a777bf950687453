#include "communicator/alone.hpp"

#include <cstring>

#include <cohort/api/collective.h>

namespace cohort::host {
namespace {

cohort_status connect(cohort_collective*, const cohort_connect_args*, cohort_comm*) noexcept {
  return COHORT_OK;
}

cohort_status split(cohort_collective*, cohort_comm*, int32_t color, int32_t, cohort_comm* part) noexcept {
  part->rank = 0;
  part->size = color < 0 ? 0 : 1;
  return COHORT_OK;
}

// The n-th message to receive is the n-th one that was sent.
cohort_status exchange_alone(cohort_collective* c, cohort_comm*, const cohort_exchange_args* args) noexcept {
  uint64_t received = 0;
  for (uint64_t i = 0; i < args->num_messages; ++i) {
    const cohort_message& sent = args->messages[i];
    if (!sent.is_send) continue;
    while (received < args->num_messages && args->messages[received].is_send) ++received;
    if (received == args->num_messages || args->messages[received].nbytes != sent.nbytes) {
      return c->host->fail(c->host, COHORT_INVALID_ARGUMENT, "exchange: a rank receives what it sends itself");
    }
    std::memmove(args->messages[received++].data, sent.data, sent.nbytes);
  }
  return COHORT_OK;
}

constexpr cohort_collective_vt make_table() {
  cohort_collective_vt table{};
  table.struct_size = sizeof table;
  table.flags = COHORT_COLLECTIVE_RANK_ORDERED;
  table.connect = connect;
  table.split = split;
  table.exchange = exchange_alone;
  return table;
}
constexpr cohort_collective_vt kTable = make_table();

constexpr cohort_component make_component() {
  cohort_component component{};
  component.struct_size = sizeof component;
  component.kind = COHORT_KIND_COLLECTIVE;
  component.name = "alone";
  component.summary = "one rank";
  component.vtable = &kTable;
  return component;
}
constexpr cohort_component kAlone = make_component();

}  // namespace

const cohort_component& alone_collective() {
  return kAlone;
}

}  // namespace cohort::host
