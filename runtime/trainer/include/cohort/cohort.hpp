// Everything a program needs, LibTorch included.
#pragma once

#include <torch/torch.h>

#include <cohort/callback.hpp>
#include <cohort/callbacks.hpp>
#include <cohort/checkpoint.hpp>
#include <cohort/data.hpp>
#include <cohort/hyper_parameters.hpp>
#include <cohort/logger.hpp>
#include <cohort/metric.hpp>
#include <cohort/metric_kinds.hpp>
#include <cohort/metrics.hpp>
#include <cohort/module.hpp>
#include <cohort/module_hooks.hpp>
#include <cohort/monitors.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/prediction_writer.hpp>
#include <cohort/program.hpp>
#include <cohort/qadam.hpp>
#include <cohort/safetensors.hpp>
#include <cohort/sampler.hpp>
#include <cohort/schedule.hpp>
#include <cohort/script_module.hpp>
#include <cohort/session.hpp>
#include <cohort/stage.hpp>
#include <cohort/sync_batch_norm.hpp>
#include <cohort/trainer.hpp>
#include <cohort/value.hpp>
#include <cohort/weights.hpp>
