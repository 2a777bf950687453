#include "given/given_args.hpp"

namespace cohort::host {
namespace {

// `service` was given a struct of this type.
void check_reserved(uint32_t reserved, const char* service, const char* type) {
  const std::string problem = reserved_problem(reserved, type);
  if (!problem.empty()) throw UserError(std::string(service) + " was given what " + problem);
}

}  // namespace

cohort_op_args given(const cohort_op_args& args) {
  return checked_copy(args, COHORT_OP_ARGS_SIZE_1_0, "comm/1", "cohort_op_args");
}

cohort_exchange_args given(const cohort_exchange_args& args) {
  const auto full = checked_copy(args, COHORT_EXCHANGE_ARGS_SIZE_1_0, "comm/1.exchange", "cohort_exchange_args");
  check_reserved(full.reserved0, "comm/1.exchange", "cohort_exchange_args");
  return full;
}

cohort_connect_args given(const cohort_connect_args& group) {
  return checked_copy(group, COHORT_CONNECT_ARGS_SIZE_1_0, "comm/1.open", "cohort_connect_args");
}

cohort_clip_args given(const cohort_clip_args& args) {
  const auto full = checked_copy(args, COHORT_CLIP_ARGS_SIZE_1_0, "clip_gradients", "cohort_clip_args");
  if (full.by == COHORT_CLIP_NORM || full.by == COHORT_CLIP_VALUE) return full;
  throw UserError("clip_gradients: gradients cannot be limited by " + std::to_string(full.by) +
                  "; give COHORT_CLIP_NORM or COHORT_CLIP_VALUE");
}

const cohort_tunable_1* given(const cohort_tunable_1* table) {
  if (!table) return nullptr;
  const std::string where = "the strategy's extension " COHORT_TUNABLE_ID;
  // The host reads no further than its own struct, so that it needs no copy.
  const std::string problem =
      length_problem(table, {table->struct_size, COHORT_TUNABLE_SIZE_1_0, sizeof *table}, "cohort_tunable_1");
  if (!problem.empty()) throw UserError(where + " " + problem);
  if (table->count == 0 || (table->settings && table->use)) return table;
  throw UserError(where + " lacks its function or its list; fill every field of its cohort_tunable_1");
}

const cohort_parts_1* given(const cohort_parts_1* table) {
  if (!table) return nullptr;
  const std::string where = "the strategy's extension " COHORT_PARTS_ID;
  const GivenLength length{table->struct_size, COHORT_PARTS_SIZE_1_0, sizeof *table};
  std::string problem = length_problem(table, length, "cohort_parts_1");
  if (problem.empty()) problem = flags_problem(table->flags, COHORT_PARTS_FORWARD_FIRST, "cohort_parts_1");
  if (problem.empty()) problem = reserved_problem(table->reserved0, "cohort_parts_1");
  if (!problem.empty()) throw UserError(where + " " + problem);
  if (table->cut) return table;
  throw UserError(where + " lacks its function; fill every field of its cohort_parts_1");
}

void check_store(const cohort_store& store) {
  const std::string what = "init_dist_connection gave a store that ";
  if (!store.vt) throw UserError(what + "has no table; set its vt");
  const cohort_store_vt& table = *store.vt;
  const GivenLength length{table.struct_size, COHORT_STORE_VT_SIZE_1_0, sizeof table};
  auto problem = length_problem(&table, length, "cohort_store_vt");
  if (problem.empty()) problem = reserved_problem(table.reserved0, "cohort_store_vt");
  if (!problem.empty()) throw UserError(what + problem);
  const cohort_store_vt full = sdk::own_copy(table);
  const bool is_whole = full.set && full.get && full.try_get && full.add && full.wait && full.remove && full.count;
  if (!is_whole) throw UserError(what + "lacks a function; fill every slot of its cohort_store_vt");
}

}  // namespace cohort::host
