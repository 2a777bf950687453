// Checks the structs that strategies hand to services and extensions, before anybody reads them.
#pragma once

#include <cstddef>

#include <cohort/api/collective.h>
#include <cohort/api/ext/draft/parts.h>
#include <cohort/api/strategy.h>
#include <cohort/api/tunable.h>

#include "given/given_struct.hpp"

namespace cohort::host {

/// Return a full copy of the arguments of an operation. Throw UserError for what cannot be one.
cohort_op_args given(const cohort_op_args& args);
cohort_exchange_args given(const cohort_exchange_args& args);
inline std::nullptr_t given(std::nullptr_t) {
  return nullptr;
}

/// Returns a full copy of the group that a strategy or a collective wants to connect. Throws as above.
cohort_connect_args given(const cohort_connect_args& group);

/// Returns a full copy of how gradients are to be limited. Throws UserError for what cannot be done.
cohort_clip_args given(const cohort_clip_args& args);

/// Return the table of the extension, which may be null. Throw UserError if it is too short or lacks its function.
const cohort_tunable_1* given(const cohort_tunable_1* table);
const cohort_parts_1* given(const cohort_parts_1* table);

/// Throws UserError if a strategy's store lacks a function.
void check_store(const cohort_store& store);

}  // namespace cohort::host
