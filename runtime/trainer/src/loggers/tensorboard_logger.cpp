#include "loggers/tensorboard_logger.hpp"

#include <chrono>
#include <vector>

#include "loggers/event.hpp"

namespace cohort {
namespace {

/// Returns the seconds since 1970.
double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

TensorBoardLogger::TensorBoardLogger(const std::filesystem::path& folder)
    : file_(folder, static_cast<uint64_t>(now())) {
  file_.append(file_version_event(now()).encoded());
  // TensorBoard ignores the first START that it reads of a run: the one of a run that goes on must not be the first.
  if (file_.is_first()) file_.append(session_start_event({now(), 0}).encoded());
}

void TensorBoardLogger::append(const ProtobufMessage& value, uint64_t step) {
  file_.append(summary_event({now(), step}, std::span(&value, 1)).encoded());
}

void TensorBoardLogger::resume_after(uint64_t step) {
  file_.append(session_start_event({now(), step + 1}).encoded());
}

void TensorBoardLogger::log_hyper_parameters(const HyperParameters& parameters) {
  append(hyper_parameters_value(parameters, now()), 0);
}

void TensorBoardLogger::log_metrics(const MetricsRow& row) {
  if (row.values.empty()) return;
  std::vector<ProtobufMessage> values{scalar_value("epoch", static_cast<double>(row.epoch))};
  for (const auto& [name, value] : row.values) values.push_back(scalar_value(name, value));
  file_.append(summary_event({now(), row.step}, values).encoded());
}

void TensorBoardLogger::log_text(std::string_view name, std::string_view text, uint64_t step) {
  append(text_value(name, text), step);
}

void TensorBoardLogger::log_histogram(std::string_view name, const at::Tensor& tensor, uint64_t step) {
  if (tensor.defined()) append(histogram_value(name, histogram_of(tensor)), step);
}

void TensorBoardLogger::completed() {
  append(success_value(now()), 0);
}

}  // namespace cohort
