#include "callbacks/link_name.hpp"

#include <algorithm>

#include <fmt/args.h>
#include <fmt/format.h>

#include <cohort/host/error.hpp>

#include "checkpoint/checkpoint_folder.hpp"

namespace cohort {
namespace {

constexpr size_t kLongestFileName = 255;

/// Makes the pattern one for fmt, to which only identifiers are names: the metric's value is called "value".
class PatternReader {
 public:
  PatternReader(std::string_view pattern, const std::string& metric, const std::string& where)
      : rest_(pattern), metric_(metric), where_(where) {
    std::ranges::replace(metric_in_name_, '/', '-');
  }

  std::string read() {
    while (!rest_.empty()) {
      if (rest_.starts_with("{{") || rest_.starts_with("}}")) {
        text_ += take(2);
      } else if (rest_.front() == '{') {
        text_ += field();
      } else if (!metric_.empty() && rest_.starts_with(metric_)) {
        take(metric_.size());
        text_ += metric_in_name_;
      } else {
        text_ += take(1);
      }
    }
    return text_;
  }

 private:
  std::string_view take(size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string field() {
    const size_t end = rest_.find('}');
    std::string field(take(end == std::string_view::npos ? end : end + 1));
    const std::string named = "{" + metric_;
    if (field.starts_with(named + ":") || field.starts_with(named + "}")) field.replace(1, metric_.size(), "value");
    check_width(field);
    return field;
  }

  // fmt would write a gigabyte of blanks for {step:1000000000}, and take the width from a value for {step:{epoch}}.
  void check_width(std::string_view field) const {
    size_t digits = 0;
    for (const char c : field.substr(std::min(field.find(':'), field.size()))) {
      digits = c >= '0' && c <= '9' ? digits + 1 : 0;
      if (digits < 4 && c != '{') continue;
      throw UserError(where_ + ": " + std::string(field) + " is wider than the name of a file may be; write a width " +
                      "of a few digits, as {step:08}");
    }
  }

  std::string_view rest_;
  const std::string& metric_;
  const std::string& where_;
  std::string metric_in_name_ = metric_;
  std::string text_;
};

}  // namespace

std::string link_name(const std::string& pattern, const std::string& metric, double value, int64_t epoch,
                      uint64_t step) {
  const std::string where = "the name '" + pattern + "' of best checkpoints";
  const std::string format = PatternReader(pattern, metric, where).read();
  std::string name;
  try {
    fmt::dynamic_format_arg_store<fmt::format_context> values;
    values.push_back(fmt::arg("step", step));
    values.push_back(fmt::arg("epoch", epoch));
    values.push_back(fmt::arg("value", value));
    name = fmt::vformat(format, values);
  } catch (const fmt::format_error& error) {
    throw UserError(where + ": " + error.what() + "; {step}, {epoch} and {" + metric + ":.3f} stand for values");
  }
  if (name.size() > kLongestFileName) {
    throw UserError(where + " gives one of " + std::to_string(name.size()) + " characters; choose one of at most " +
                    std::to_string(kLongestFileName));
  }
  if (name.find('/') == std::string::npos && !name.starts_with('.') && name != kBestLink && !step_of_name(name))
    return name;
  throw UserError(where + " gives '" + name +
                  "'; choose one without '/' that does not begin with '.' and is neither '" + kBestLink +
                  "' nor that of a checkpoint");
}

}  // namespace cohort
