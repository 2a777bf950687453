#include "module/model_table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_set>
#include <vector>

#include <torch/nn/module.h>

namespace cohort {
namespace {

using Row = std::array<std::string, 4>;  // index, name, type, params

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto place = static_cast<int64_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<size_t>(place), ",");
  }
  return digits;
}

// "torch::nn::Conv2dImpl" -> "Conv2d"
std::string short_type(const std::string& type) {
  std::string text = type.substr(type.rfind(':') + 1);
  if (text.size() > 4 && text.ends_with("Impl")) text.resize(text.size() - 4);
  return text;
}

int64_t count(const torch::nn::Module& module) {
  int64_t total = 0;
  for (const auto& parameter : module.parameters()) total += parameter.numel();
  return total;
}

std::vector<Row> rows_of(const torch::nn::Module& module) {
  std::vector<Row> rows;
  const auto add = [&rows](const std::string& name, const std::string& type, int64_t params) {
    rows.push_back({std::to_string(rows.size()), name, type, grouped(params)});
  };
  for (const auto& own : module.named_parameters(/*recurse=*/false)) add(own.key(), "Parameter", own.value().numel());
  for (const auto& child : module.named_children())
    add(child.key(), short_type(child.value()->name()), count(*child.value()));
  return rows;
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

std::string line_of(const Row& row, const std::array<size_t, 4>& widths) {
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0) line += " | ";
    line += i + 1 < row.size() ? padded(row[i], widths[i]) : row[i];
  }
  return line;
}

std::string footer(const torch::nn::Module& module) {
  int64_t trainable = 0, frozen = 0, bytes = 0;
  std::unordered_set<const void*> seen;  // tied parameters are one
  for (const auto& parameter : module.parameters()) {
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    (parameter.requires_grad() ? trainable : frozen) += parameter.numel();
    bytes += static_cast<int64_t>(parameter.nbytes());
  }
  std::array<char, 32> megabytes{};
  std::snprintf(megabytes.data(), megabytes.size(), "%.3f", static_cast<double>(bytes) / 1e6);
  const std::array<std::pair<std::string, const char*>, 4> lines{
      {{grouped(trainable), "Trainable params"},
       {grouped(frozen), "Non-trainable params"},
       {grouped(trainable + frozen), "Total params"},
       {megabytes.data(), "Total estimated model params size (MB)"}}};
  std::string text;
  for (const auto& [figure, what] : lines) text += (text.empty() ? "" : "\n") + padded(figure, 12) + what;
  return text;
}

}  // namespace

std::string model_table(const torch::nn::Module& module) {
  const Row header{" ", "Name", "Type", "Params"};
  const auto rows = rows_of(module);
  std::array<size_t, 4> widths{};
  for (size_t i = 0; i < widths.size(); ++i) {
    widths[i] = header[i].size();
    for (const auto& row : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  size_t width = 9;  // the separators
  for (const size_t w : widths) width += w;
  const std::string rule = "\n" + std::string(width, '-') + "\n";
  std::string body;
  for (const auto& row : rows) body += (body.empty() ? "" : "\n") + line_of(row, widths);
  return line_of(header, widths) + rule + body + rule + footer(module);
}

}  // namespace cohort
