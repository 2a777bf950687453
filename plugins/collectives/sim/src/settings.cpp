#include "settings.hpp"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace cohort::sim {

namespace {

constexpr std::array<std::pair<std::string_view, double>, 8> kUnits{{{"Gbit", 1e9 / 8},
                                                                     {"Mbit", 1e6 / 8},
                                                                     {"kbit", 1e3 / 8},
                                                                     {"bit", 1.0 / 8},
                                                                     {"GB", 1e9},
                                                                     {"MB", 1e6},
                                                                     {"kB", 1e3},
                                                                     {"B", 1.0}}};

}  // namespace

double rate_from(const std::string& text) {
  if (text == "unlimited") return 0;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [unit_begin, failure] = std::from_chars(text.data(), end, number);
  const std::string_view unit(unit_begin, static_cast<std::size_t>(end - unit_begin));
  for (const auto& [name, factor] : kUnits) {
    const double rate = number * factor;
    if (failure == std::errc{} && unit == name && rate >= 1 && rate <= 1e15) return rate;
  }
  throw sdk::invalid_argument("sim: bandwidth is '" + text +
                              "', which is no rate above 0; write for example 1Gbit, 100Mbit, 2.5GB or unlimited");
}

std::optional<Vanishing> vanishing_from(const std::string& text) {
  if (text.empty()) return std::nullopt;
  Vanishing result{};
  const char* const end = text.data() + text.size();
  const auto [middle, rank_failure] = std::from_chars(text.data(), end, result.rank);
  if (rank_failure == std::errc{} && middle != end && *middle == '@') {
    const auto [stop, failure] = std::from_chars(middle + 1, end, result.at);
    if (failure == std::errc{} && stop == end && result.rank >= 0 && result.at >= 1) return result;
  }
  throw sdk::invalid_argument("sim: vanish is '" + text +
                              "'; write RANK@EXCHANGE, for example 1@50, with exchanges counted from 1");
}

Settings settings_from(const sdk::Options& options) {
  Settings settings;
  settings.over = options.text("over");
  if (settings.over.empty() || settings.over.substr(0, settings.over.find(',')) == "sim") {
    throw sdk::invalid_argument("sim: over is '" + settings.over +
                                "'; name the collective that carries the bytes, as in over=shm");
  }
  settings.bytes_per_second = rate_from(std::string(options.text("bandwidth")));
  settings.latency = options.duration("latency");
  settings.straggler = static_cast<int>(options.integer("straggler"));
  settings.slow = options.duration("slow");
  settings.vanishing = vanishing_from(std::string(options.text("vanish")));
  return settings;
}

}  // namespace cohort::sim
