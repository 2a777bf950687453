// How ranks that know only a store come to a common control segment.
#pragma once

#include <memory>

#include <cohort/api/collective.h>

#include "communicator.hpp"

namespace cohort::shm {

/// Throws FAILED_PRECONDITION on all ranks where one of them runs on another machine or in another pid namespace.
std::unique_ptr<Communicator> connect(const cohort_connect_args& args, ReduceFunction reduce);

}  // namespace cohort::shm
