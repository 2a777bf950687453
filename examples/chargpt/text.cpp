#include "text.hpp"

#include <torch/types.h>
#include <cohort/host/error.hpp>
#include <fstream>
#include <set>
#include <sstream>

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& file) {
  std::ifstream input(file, std::ios::binary);
  std::ostringstream text;
  text << input.rdbuf();
  if (!input) throw cohort::UserError("--text: '" + file.string() + "' cannot be read; give a file with text");
  return text.str();
}

fs::path beside_program() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "share/cohort/chargpt/shakespeare.txt";
}

/// Returns pieces of `context` characters, each with the characters that follow its own.
std::shared_ptr<cohort::Dataset> pieces_of(const torch::Tensor& tokens, int64_t context) {
  const int64_t last = tokens.size(0) - 1;
  if (last < context) {
    throw cohort::UserError("--text: the text is too short; give one of at least " + std::to_string(20 * context) +
                            " characters");
  }
  const auto inputs = tokens.slice(0, 0, last).unfold(0, context, context);
  const auto targets = tokens.slice(0, 1).unfold(0, context, context);
  return std::make_shared<cohort::TensorDataset>(inputs.contiguous(), targets.contiguous());
}

}  // namespace

Text::Text(const fs::path& file, int64_t context) {
  const std::string text = read(file.empty() ? beside_program() : file);
  const std::set<char> different(text.begin(), text.end());
  characters_.assign(different.begin(), different.end());
  const auto tokens = tokens_of(text);
  const int64_t training = tokens.size(0) * 9 / 10;
  train_ = pieces_of(tokens.slice(0, 0, training), context);
  validation_ = pieces_of(tokens.slice(0, training), context);
}

torch::Tensor Text::tokens_of(const std::string& text) const {
  std::vector<int64_t> tokens;
  for (const char character : text) {
    const auto place = characters_.find(character);
    if (place == std::string::npos) {
      throw cohort::UserError("--begin: the text that was learned has no '" + std::string(1, character) + "'");
    }
    tokens.push_back(static_cast<int64_t>(place));
  }
  return torch::tensor(tokens);
}

std::string Text::text_of(const torch::Tensor& tokens) const {
  std::string text;
  for (int64_t i = 0; i < tokens.size(0); ++i) text += characters_[static_cast<size_t>(tokens[i].item<int64_t>())];
  return text;
}
