#include "metrics/rank_report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

constexpr char kEndOfName = ',';  // no name of a metric has it

// Hexadecimal, so that every bit arrives.
std::string exact(double value) {
  std::array<char, 40> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::hex).ptr;
  return {text.data(), end};
}

/// Returns the text without the characters that end a field.
std::string one_field(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

std::string joined(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += name + kEndOfName;
  return text;
}

std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (size_t end = 0; (end = text.find(kEndOfName)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    names.emplace_back(text.substr(0, end));
  }
  return names;
}

/// Takes the fields of a report off its front.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}
  bool done() const { return rest_.empty(); }

  std::string_view text(char end) {
    const size_t length = rest_.find(end);
    if (length == std::string_view::npos) fail();
    const auto field = rest_.substr(0, length);
    rest_.remove_prefix(length + 1);
    return field;
  }

  std::string_view bytes(size_t count) {
    if (count > rest_.size()) fail();
    const auto field = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return field;
  }

  template <class Number, class... Format>
  Number number(char end, Format... format) {
    const auto field = text(end);
    Number value{};
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), value, format...);
    if (parsed.ec != std::errc() || parsed.ptr != field.data() + field.size()) fail();
    return value;
  }

 private:
  [[noreturn]] static void fail() {
    throw PeerFailed(
        "a rank sent a report of its metrics that cannot be read; check that all ranks run the same program");
  }

  std::string_view rest_;
};

/// Ranks that take the other's weights over see its NaN in a later step, and all of them tell at the next vote. What
/// has brought a training to its end still has if its time is over as well.
bool counts_more(const StopReason& one, const StopReason& other) {
  if (one.severity != other.severity) return one.severity > other.severity;
  return one.is_final != other.is_final ? one.is_final : one.step < other.step;
}

/// Keeps of the names those that are among the others as well; the first are all kept.
void keep_common(std::vector<std::string>& names, std::vector<std::string> others, bool is_first) {
  if (is_first) return names.swap(others);
  const std::set<std::string> known(others.begin(), others.end());
  std::erase_if(names, [&](const std::string& name) { return !known.contains(name); });
}

struct Sum {
  double sum = 0;
  double weight = 0;
};

}  // namespace

StopReason stopped_by(int signal, int rank) {
  return {.severity = StopReason::Severity::kInterrupt,
          .exit_reason = "signal",
          .text = "rank " + std::to_string(rank) + " received signal " + std::to_string(signal),
          .signal = signal,
          .rank = rank};
}

std::string to_text(const RankReport& report) {
  const StopReason& stop = report.stop;
  std::string text = std::to_string(static_cast<int>(stop.severity)) + "\t" + std::to_string(stop.signal) + "\t" +
                     std::to_string(stop.step) + "\t" + (stop.is_final ? "1" : "0") + "\t" + stop.callback + "\t" +
                     one_field(stop.exit_reason) + "\t" + one_field(stop.text) + "\t" +
                     (report.lacks_step ? "1" : "0") + "\t" + joined(report.not_logged) + "\t" +
                     one_field(joined(report.unused)) + "\t" + std::to_string(report.states.size()) + "\n" +
                     report.states;
  for (const auto& total : report.totals)
    text += total.name + "\t" + exact(total.sum) + "\t" + exact(total.weight) + "\n";
  return text;
}

MergedReport merge_reports(std::span<const std::string> texts) {
  MergedReport merged;
  std::map<std::string, Sum, std::less<>> sums;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    Fields fields(texts[rank]);
    StopReason stop;
    stop.severity = static_cast<StopReason::Severity>(fields.number<int>('\t'));
    stop.signal = fields.number<int>('\t');
    stop.step = fields.number<uint64_t>('\t');
    stop.is_final = fields.number<int>('\t') != 0;
    stop.callback = fields.text('\t');
    stop.exit_reason = fields.text('\t');
    stop.text = fields.text('\t');
    merged.lacks_step |= fields.number<int>('\t') != 0;
    merged.not_logged.push_back(names_in(fields.text('\t')));
    keep_common(merged.unused, names_in(fields.text('\t')), rank == 0);
    merged.states.emplace_back(fields.bytes(fields.number<size_t>('\n')));
    stop.rank = static_cast<int>(rank);
    if (counts_more(stop, merged.stop)) merged.stop = stop;
    while (!fields.done()) {
      Sum& sum = sums[std::string(fields.text('\t'))];
      sum.sum += fields.number<double>('\t', std::chars_format::hex);
      sum.weight += fields.number<double>('\n', std::chars_format::hex);
    }
  }
  for (const auto& [name, sum] : sums) {
    if (sum.weight > 0) merged.means[name] = sum.sum / sum.weight;
  }
  return merged;
}

}  // namespace cohort
