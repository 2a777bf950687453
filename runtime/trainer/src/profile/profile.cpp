#include "profile/profile.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>

#include "profile/communication_events.hpp"
#include "profile/operator_events.hpp"

namespace cohort {
namespace {

constexpr const char* kRowNames[] = {
    "data",   "transfer",   "forward",    "backward", "other replicas", "waiting for gradients", "optimizer",
    "replay", "validation", "checkpoint", "rest"};
static_assert(std::size(kRowNames) == Profile::kRest + 1);

constexpr int64_t kShortest_ns = 1'000;            // shorter phases are in the table only
constexpr size_t kPieceBytes = size_t{256} << 10;  // of a rank's trace, sent at a time

/// A file for the trace, on rank 0, which goes on without it if it cannot be written: the others still send.
class TraceFile {
 public:
  TraceFile(const std::filesystem::path& path, host::Log& log) : log_(log) {
    attempt([&] { file_ = std::make_unique<host::OutputFile>(path); });
    attempt([&] { file_->write(kTraceBegin); });
  }

  void add(const std::string& entries) {
    if (entries.empty()) return;
    attempt([&] { file_->write(std::exchange(separator_, ",\n") + entries); });
  }

  /// Returns whether the file is complete.
  bool finish() {
    attempt([&] {
      file_->write(kTraceEnd);
      file_->finish();
    });
    return !has_failed_;
  }

 private:
  template <class Write>
  void attempt(const Write& write) {
    if (has_failed_) return;
    try {
      write();
    } catch (const UserError& error) {
      has_failed_ = true;
      log_.warning(std::string("the profile has no trace: ") + error.what());
    }
  }

  host::Log& log_;
  std::unique_ptr<host::OutputFile> file_;
  std::string separator_;
  bool has_failed_ = false;
};

}  // namespace

struct Profile::Recording {
  Recording(Runtime& runtime, EventLog& log) : operators(log), communication(runtime, log) {}
  OperatorEvents operators;
  CommunicationEvents communication;
};

Profile::Profile(Runtime& runtime, ProfileSettings settings)
    : runtime_(runtime),
      settings_(std::move(settings)),
      names_(std::begin(kRowNames), std::end(kRowNames)),
      clock_(names_.size()) {}

Profile::~Profile() = default;

size_t Profile::add_row(std::string name) {
  names_.push_back(std::move(name));
  return clock_.add_row();
}

void Profile::begin_loop() {
  rank_clock_ = compare_clocks(runtime_);
  log_.name_thread("loop");
  clock_.enter(kRest, clock_ns());
}

void Profile::end_loop() {
  records_ = false;
  recording_.reset();
  clock_.leave(clock_ns());
}

void Profile::begin_step() {
  if (steps_ == settings_.warmup) {
    recording_ = std::make_unique<Recording>(runtime_, log_);
    records_ = true;
  } else if (steps_ == settings_.warmup + settings_.steps) {
    records_ = false;
    recording_.reset();
  }
  step_begun_ns_ = clock_ns();
}

void Profile::end_step() {
  ++steps_;
  if (records_) log_.add(EventLog::Kind::kStep, "step " + std::to_string(steps_), {step_begun_ns_, clock_ns()});
}

int64_t Profile::enter(size_t row, bool counts) {
  const int64_t now = clock_ns();
  if (counts) clock_.enter(row, now);
  return now;
}

void Profile::leave(size_t row, bool counts, int64_t begun_ns) {
  const int64_t now = clock_ns();
  if (counts) clock_.leave(now);
  if (records_ && now - begun_ns >= kShortest_ns) log_.add(EventLog::Kind::kPhase, names_[row], {begun_ns, now});
}

// The rest comes last, behind the callbacks.
PhaseTimes Profile::times() const {
  PhaseTimes times{steps_, {}};
  for (size_t row = 0; row < names_.size(); ++row) {
    const PhaseClock::Row& one = clock_.rows()[row];
    times.phases.push_back({names_[row], one.count, static_cast<double>(one.ns) * 1e-9, row > kRest});
  }
  const auto rest = times.phases.begin() + std::ptrdiff_t{kRest};
  std::rotate(rest, rest + 1, times.phases.end());
  return times;
}

TracePlace Profile::place() const {
  const ClockOffset& offset = rank_clock_.offset;
  std::string label;
  if (offset.ns != 0) {
    label = "clock set by " + std::to_string(-offset.ns / 1000) + " us, right to " +
            std::to_string(offset.error_ns / 1000 + 1) + " us";
  }
  return {runtime_.rank(), std::move(label), rank_clock_.zero_ns};
}

void Profile::report(bool writes_files) {
  std::vector<PhaseTimes> ranks;
  for (const std::string& text : runtime_.all_gather(to_text(times()))) ranks.push_back(parse_phase_times(text));
  if (runtime_.is_first()) {
    std::fputs(phase_table(std::move(ranks)).c_str(), stdout);
    std::fflush(stdout);
  }
  if (writes_files) {
    write_trace();
  } else if (runtime_.is_first()) {
    runtime_.log().warning("no trace is written: --fast-dev-run and --barebones write no files");
  }
}

// In pieces, so that the memory for it does not grow with the number of events.
void Profile::write_trace() {
  std::unique_ptr<TraceFile> file;
  if (runtime_.is_first()) file = std::make_unique<TraceFile>(settings_.file, runtime_.log());
  TraceText own(log_, place());
  while (true) {
    const auto pieces = runtime_.all_gather(own.next(kPieceBytes));
    if (std::ranges::all_of(pieces, &std::string::empty)) break;
    if (!file) continue;
    for (const std::string& piece : pieces) file->add(piece);
  }
  if (file && file->finish()) tell_of_trace();
}

void Profile::tell_of_trace() const {
  host::Log& log = runtime_.log();
  if (steps_ <= settings_.warmup) {
    log.warning("no step is in the trace: it begins after " + std::to_string(settings_.warmup) +
                " steps, and the training took " + std::to_string(steps_) + "; give --profile=FILE,warmup=0");
    return;
  }
  if (log_.left_out() > 0) {
    log.warning("the trace of rank 0 lacks its last " + std::to_string(log_.left_out()) +
                " events, because it holds at most " + std::to_string(EventLog::kMost) +
                " of each rank; give --profile=FILE,steps=N with fewer steps");
  }
  log.info("Trace of steps " + std::to_string(settings_.warmup + 1) + " to " +
           std::to_string(std::min(steps_, settings_.warmup + settings_.steps)) +
           ", for https://ui.perfetto.dev: " + settings_.file.string());
}

}  // namespace cohort
