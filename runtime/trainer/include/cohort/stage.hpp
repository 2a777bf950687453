// What a call of the Trainer does, for code that prepares it.
#pragma once

namespace cohort {

enum class Stage { kFit, kValidate, kTest, kPredict };

}  // namespace cohort
