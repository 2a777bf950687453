// Events in the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing read: a process is a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "profile/event_log.hpp"

namespace cohort {

/// The place of a rank's events in the trace of all ranks.
struct TracePlace {
  int rank = 0;
  std::string label;    ///< shown beside the rank; may be empty
  int64_t zero_ns = 0;  ///< beginning of the trace, by the clock of the events
};

constexpr const char* kTraceBegin = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
constexpr const char* kTraceEnd = "\n]}\n";

/// The entries of one rank, in pieces. Borrows the log.
class TraceText {
 public:
  TraceText(const EventLog& log, TracePlace place) : log_(log), place_(std::move(place)) {}

  /// Returns the next entries, with ",\n" between them: about that many bytes, or "" after the last.
  std::string next(size_t bytes);

 private:
  const EventLog& log_;
  TracePlace place_;
  bool has_begun_ = false;
  size_t next_ = 0;  // event

  std::string names() const;
  std::string entry(const EventLog::Event& event) const;
};

}  // namespace cohort
