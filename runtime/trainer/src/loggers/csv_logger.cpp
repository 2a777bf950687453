#include "loggers/line_loggers.hpp"

#include <string>
#include <utility>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {

CsvLogger::CsvLogger(const std::filesystem::path& folder) : LineLogger(folder / "metrics.csv"), header_(whole_table()) {
  header_.forget_rows();
}

CsvTable CsvLogger::whole_table() {
  auto table = CsvTable::parse(file_.whole_lines());
  if (table) return std::move(*table);
  throw UserError(host::on_one_line(file_.path().native()) + " is no table of metrics; move it away");
}

void CsvLogger::replace(CsvTable table) {
  file_.replace(table.text());
  table.forget_rows();
  header_ = std::move(table);
}

void CsvLogger::resume_at(uint64_t step, uint64_t rows) {
  CsvTable table = whole_table();
  const std::string text = table.text();
  table.drop_behind("step", static_cast<double>(step), rows);
  if (table.text() != text) replace(std::move(table));
}

void CsvLogger::log_metrics(const MetricsRow& row) {
  if (row.values.empty()) return;
  std::vector<std::pair<std::string, double>> cells{{"epoch", static_cast<double>(row.epoch)},
                                                    {"step", static_cast<double>(row.step)}};
  cells.insert(cells.end(), row.values.begin(), row.values.end());
  if (header_.has_columns_of(cells)) {
    header_.add_row(cells);
    const std::string line = header_.row_lines();
    header_.forget_rows();
    return file_.append(line);
  }
  CsvTable table = whole_table();
  table.add_row(cells);
  replace(std::move(table));
}

}  // namespace cohort
