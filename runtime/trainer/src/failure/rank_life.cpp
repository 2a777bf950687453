#include "failure/rank_life.hpp"

#include <optional>

#include <cohort/diagnosis/post_mortem.hpp>
#include <cohort/host/connected_rank.hpp>
#include <cohort/host/crash_report.hpp>

#include "failure/failure.hpp"

namespace cohort {

int run_rank(Runtime& runtime, const std::filesystem::path& error_file, const std::function<int()>& work) {
  PostMortem post_mortem(runtime.connected_rank(), runtime.options().log_dir);
  const auto fail = [&] {
    // Before the connections close: the first report is taken for the root cause.
    const Failure failure = post_mortem.examine(current_failure());
    report_failure(failure, runtime.log(), error_file);
    post_mortem.leave();
    return failure.exit_code;
  };
  const host::UncaughtReport without_unwinding(
      [&] { return tells_of_lost_device() ? std::optional(fail()) : std::nullopt; });
  try {
    runtime.connect();
    post_mortem.introduce();
    const int code = work();
    runtime.shutdown();
    return code;
  } catch (...) {
    return fail();
  }
}

}  // namespace cohort
