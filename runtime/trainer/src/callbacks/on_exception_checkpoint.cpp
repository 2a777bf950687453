#include <cohort/callbacks.hpp>
#include <cohort/runtime.hpp>

#include "checkpoint/checkpoint_folder.hpp"

namespace cohort {

void OnExceptionCheckpoint::on_exception(Fit& fit, const std::exception& /*error*/) {
  const auto written = fit.save(folder_);
  if (written) fit.runtime().log().info("Checkpoint of the last complete step: " + shown(*written));
}

}  // namespace cohort
