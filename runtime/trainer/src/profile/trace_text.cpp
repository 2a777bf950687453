#include "profile/trace_text.hpp"

#include <cstdio>

#include <nlohmann/json.hpp>

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // names of operators may be any bytes
}

const char* category_of(EventLog::Kind kind) {
  switch (kind) {
    case EventLog::Kind::kPhase:
      return "phase";
    case EventLog::Kind::kStep:
      return "step";
    case EventLog::Kind::kOperator:
      return "operator";
    case EventLog::Kind::kBucket:
      return "bucket";
    case EventLog::Kind::kOperation:
      break;
  }
  return "communication";
}

/// Nanoseconds as microseconds, every digit of them: a double has too few for a long training.
std::string microseconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%lld.%03lld", ns < 0 ? "-" : "", std::llabs(ns) / 1000, std::llabs(ns) % 1000);
  return text;
}

}  // namespace

std::string TraceText::next(size_t bytes) {
  std::string text;
  if (!has_begun_) text = names();
  has_begun_ = true;
  for (; next_ < log_.events().size() && text.size() < bytes; ++next_) {
    if (!text.empty()) text += ",\n";
    text += entry(log_.events()[next_]);
  }
  return text;
}

std::string TraceText::names() const {
  std::string text;
  const auto add = [&](const char* what, size_t thread, const Json& arguments) {
    text += (text.empty() ? "" : ",\n") +
            dumped({{"name", what}, {"ph", "M"}, {"pid", place_.rank}, {"tid", thread}, {"args", arguments}});
  };
  add("process_name", 0, {{"name", "rank " + std::to_string(place_.rank)}});
  add("process_sort_index", 0, {{"sort_index", place_.rank}});
  if (!place_.label.empty()) add("process_labels", 0, {{"labels", place_.label}});
  for (size_t thread = 0; thread < log_.threads().size(); ++thread) {
    add("thread_name", thread, {{"name", log_.threads()[thread]}});
    add("thread_sort_index", thread, {{"sort_index", thread}});
  }
  return text;
}

std::string TraceText::entry(const EventLog::Event& event) const {
  std::string text = "{\"name\":" + dumped(log_.text(event.name)) + ",\"cat\":\"" + category_of(event.kind) +
                     "\",\"ph\":\"X\",\"pid\":" + std::to_string(place_.rank) +
                     ",\"tid\":" + std::to_string(event.thread) +
                     ",\"ts\":" + microseconds(event.when.begun_ns - place_.zero_ns) +
                     ",\"dur\":" + microseconds(event.when.ended_ns - event.when.begun_ns);
  const std::string& arguments = log_.text(event.arguments);
  if (!arguments.empty()) text += ",\"args\":" + arguments;
  return text + "}";
}

}  // namespace cohort
