// The service tables that strategies of a rank are given (cohort/api/host/), by id.
#pragma once

#include <string_view>

#include <cohort/api/host/archive.h>
#include <cohort/api/host/comm.h>
#include <cohort/api/host/lane.h>
#include <cohort/api/host/memory.h>
#include <cohort/api/host/model.h>
#include <cohort/api/host/stream.h>

namespace cohort::host {

/// Returns null for an unknown id.
const void* find_service(std::string_view id);
const cohort_archive_1& archive_service();
const cohort_comm_1& comm_service();
const cohort_lane_1& lane_service();
const cohort_memory_1& memory_service();
const cohort_optimizer_1& optimizer_service();
const cohort_stream_1& stream_service();

/// Throws UserError, which begins with `call`, if there is no stream for memory of a device.
void check_stream(const cohort_stream& stream, const char* call);

}  // namespace cohort::host
