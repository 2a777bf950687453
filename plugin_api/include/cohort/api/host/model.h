/* Services cohort.params/1 and cohort.optimizer/1: the model and its optimizers. Frozen from 1.0. Available from
 * configure_model on. */
#ifndef COHORT_API_HOST_MODEL_H
#define COHORT_API_HOST_MODEL_H

#include "../strategy.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_PARAMS_ID "cohort.params/1"
#define COHORT_OPTIMIZER_ID "cohort.optimizer/1"

typedef struct cohort_params_1 {
  /* Returns the number of parameters, including frozen ones (without COHORT_TENSOR_REQUIRES_GRAD). [main] [step] */
  uint32_t (*count)(const cohort_host* host) COHORT_NOEXCEPT;
  /* Fills `*weight` with a parameter; `id` is its registration index. [main] [step] */
  cohort_status (*get)(const cohort_host* host, uint32_t id, cohort_tensor* weight) COHORT_NOEXCEPT;
} cohort_params_1;

/* Optimizers have numbers: each is a phase of the step. A parameter has its index in params/1. [main] [step] */
typedef struct cohort_optimizer_1 {
  /* Runs the host optimizer's step over these parameters of the phase, each named once, with its learning rate times
   * the factors. Null: over all, or all that this rank owns. A parameter without a gradient is left alone. Fails for
   * some parameters of an optimizer that steps all together (LBFGS) or that the host does not know, and on a lane, also
   * in reduce_bucket. [step] */
  cohort_status (*step)(const cohort_host* host, uint32_t phase, const uint32_t* parameters,
                        uint64_t n) COHORT_NOEXCEPT;
  /* Makes this rank alone keep the optimizer's state of these parameters and step them. Called in configure_model,
   * before `below`, on all ranks of WORLD: each parameter of the phase belongs to one rank. Their state is not sent to
   * other ranks, which forget theirs. A checkpoint holds it once, and any strategy on any number of ranks may read it.
   * Fails as `step` does. [main] */
  cohort_status (*own)(const cohort_host* host, uint32_t phase, const uint32_t* parameters, uint64_t n) COHORT_NOEXCEPT;
  /* Fills `*phase` with the phase of a parameter. */
  cohort_status (*phase_of)(const cohort_host* host, uint32_t parameter, uint32_t* phase) COHORT_NOEXCEPT;
  /* Returns the number of optimizers. */
  uint32_t (*count)(const cohort_host* host) COHORT_NOEXCEPT;
  /* Returns "sgd", "adam", "adamw", "rmsprop", "adagrad", or "" for every other optimizer. Static. */
  const char* (*kind)(const cohort_host* host, uint32_t phase)COHORT_NOEXCEPT;
  /* Fills `*value` with a setting of the optimizer for this parameter, as last set by the user or a schedule: "lr"
   * (without the factors of set_lr_factor), "weight_decay", "momentum", "dampening", "nesterov", "beta1", "beta2",
   * "eps", "amsgrad", "alpha", "centered", "lr_decay", "initial_accumulator_value", "warmup_steps" (cohort::QAdam);
   * switches are 0 or 1. "lr_factor" is the product of the factors of all layers: a strategy that makes the step itself
   * multiplies "lr" by it. COHORT_NOT_FOUND: the optimizer has no such setting, or the parameter belongs to none. */
  cohort_status (*hyper)(const cohort_host* host, uint32_t parameter, const char* name, double* value) COHORT_NOEXCEPT;
  /* Sets the factor of the calling layer for the learning rates of a phase: finite, above 0; 1 until it is set in a
   * training, so a run that resumes sets it again in load_state. It holds from the next step of the
   * optimizer on, so also for this one if it is set before the inherited optimizer_step. The
   * phase steps with its learning rates times the product of the factors of all layers. Neither a schedule, the user
   * nor a checkpoint ever sees a factor. Fails for an optimizer that has no learning rate. */
  cohort_status (*set_lr_factor)(const cohort_host* host, uint32_t phase, double factor) COHORT_NOEXCEPT;
  /* Fills `*step` with the number of steps that the optimizer has counted for this parameter, 0 before the first one.
   * COHORT_NOT_FOUND: it counts none (sgd). */
  cohort_status (*get_step)(const cohort_host* host, uint32_t parameter, int64_t* step) COHORT_NOEXCEPT;
  /* Sets the number of get_step, in a strategy that makes the step. COHORT_NOT_FOUND: the optimizer counts none. */
  cohort_status (*set_step)(const cohort_host* host, uint32_t parameter, int64_t step) COHORT_NOEXCEPT;
} cohort_optimizer_1;

COHORT_EXTERN_C_END
#endif
