// The calls of the Trainer, by which setup() and teardown() tell what to prepare.
#pragma once

namespace cohort {

enum class Stage { kFit, kValidate, kTest, kPredict };

}  // namespace cohort
