// Text to values and back: what stands behind a flag.
//
// Every parser throws UserError that begins with `where` ("--devices", "run.toml:3: devices") and says what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cohort/host/options.hpp>

namespace cohort::host {

/// A value as written, and where.
struct Given {
  std::string_view text;
  std::string_view where;
};

int64_t parse_integer(Given given, int64_t lowest, int64_t highest);
uint64_t parse_unsigned(Given given);
bool parse_bool(Given given);
double parse_from_zero(Given given);
/// `auto` is 0.
int64_t parse_pieces(Given given);
/// The position of the text in `choices`.
std::size_t parse_choice(Given given, const std::vector<std::string>& choices);
/// PyTorch Lightning's spellings: also `16` and `bf16` for mixed types, `32-true` and `64-true`.
Precision parse_precision(Given given);
/// `2` a count, `[0,1]` and `0,1` and `[0]` ids, `-1` and `auto` all.
Devices parse_devices(Given given);
/// `10` batches, `0.5` a fraction of the epoch, `1.0` all of it.
BatchLimit parse_batch_limit(Given given, int64_t lowest);

/// TOML literals.
std::string literal(bool value);
std::string literal(int64_t value);
std::string literal(uint64_t value);
std::string literal(std::string_view text);
/// Returns literal(text) for a char pointer, too, which the overloads would take for a bool.
inline std::string text_literal(std::string_view text) {
  return literal(text);
}
std::string literal(const Devices& devices);
std::string literal(const BatchLimit& limit);
std::string literal(const std::vector<std::string>& texts);
/// A floating number as the shortest text that reads back as the same one, never without a point.
std::string decimal_text(double value);

}  // namespace cohort::host
