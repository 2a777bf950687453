// What `sim` simulates, as its options say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <cohort/sdk/options.hpp>

#include "link_model.hpp"

namespace cohort::sim {

/// A rank and the exchange at which something happens to it, counted from 1 over all communicators.
struct Vanishing {
  int rank;
  uint64_t at;
};

struct Settings {
  std::string over;
  double bytes_per_second = 0;
  Nanoseconds latency{0};
  int straggler = -1;  // a rank, or -1
  Nanoseconds slow{0};
  std::optional<Vanishing> vanishing;
};

/// Throws INVALID_ARGUMENT that names the option.
Settings settings_from(const sdk::Options& options);

/// "1Gbit", "100Mbit", "2.5GB" per second (powers of ten) in bytes per second; 0 for "unlimited".
double rate_from(const std::string& text);

/// "1@50": rank 1 at exchange 50; nothing for "".
std::optional<Vanishing> vanishing_from(const std::string& text);

}  // namespace cohort::sim
