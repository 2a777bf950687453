#include "loggers/line_loggers.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include "files/json_fields.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

/// Returns the step of a line. Throws UserError, which names the file, if the line is no row.
uint64_t step_of_line(std::string_view line, const std::filesystem::path& file) {
  try {
    return whole_field<uint64_t>(Json::parse(line), "step");
  } catch (const std::exception& error) {  // the library's, or of a number that does not fit
    throw UserError(host::on_one_line(file.native()) + " has a line that is no row of metrics, " +
                    host::in_quotes(line) + ": " + host::on_one_line(error.what()) + "; move the file away");
  }
}

}  // namespace

JsonLogger::JsonLogger(const std::filesystem::path& folder) : LineLogger(folder / "metrics.jsonl") {
  file_.whole_lines();
}

void JsonLogger::resume_at(uint64_t step, uint64_t rows) {
  const std::string text = file_.whole_lines();
  uint64_t of_step = 0;
  std::string kept;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n') + 1);
    const uint64_t step_of_row = step_of_line(line, file_.path());
    if (step_of_row < step || (step_of_row == step && ++of_step <= rows)) kept += line;
    rest.remove_prefix(line.size());
  }
  if (kept != text) file_.replace(kept);
}

void JsonLogger::log_metrics(const MetricsRow& row) {
  if (row.values.empty()) return;
  Json line{{"step", row.step}, {"epoch", row.epoch}};
  for (const auto& [name, value] : row.values) line[name] = json_number(value);
  // A name with bytes that are no UTF-8 cannot stand in JSON, and gets the sign for an unknown character.
  file_.append(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace cohort
