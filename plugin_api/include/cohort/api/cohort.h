/* All headers that a plugin can use: include this one, or single ones. */
#ifndef COHORT_API_COHORT_H
#define COHORT_API_COHORT_H

#include "accelerator.h"
#include "collective.h"
#include "host/archive.h"
#include "host/buckets.h"
#include "host/comm.h"
#include "host/job.h"
#include "host/kernels.h"
#include "host/lane.h"
#include "host/log.h"
#include "host/memory.h"
#include "host/metrics.h"
#include "host/model.h"
#include "host/proof.h"
#include "host/stream.h"
#include "logger.h"
#include "strategy.h"
#include "tunable.h"
#include "values.h"

#endif
