#include "named_cut.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <cohort/sdk/error.hpp>

namespace cohort::balanced {
namespace {

constexpr std::size_t kShownUnits = 12;

std::vector<std::string> split(std::string_view names) {
  std::vector<std::string> all;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= names.size(); ++i) {
    if (i < names.size() && names[i] != '+') continue;
    all.emplace_back(names.substr(begin, i - begin));
    begin = i + 1;
  }
  return all;
}

bool is_or_lies_under(const std::string& unit, const std::string& name) {
  return unit == name || unit.compare(0, name.size() + 1, name + ".") == 0;
}

std::size_t find_unit(const Chain& chain, const std::string& name) {
  std::size_t unit = 0;
  while (unit < chain.size() && !is_or_lies_under(chain[unit].name, name)) ++unit;
  return unit;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// Returns the name of a unit, or of a module above one, with the fewest edits.
std::string nearest(const Chain& chain, const std::string& name) {
  std::string best;
  std::size_t least = std::string::npos;
  for (std::size_t unit = 0; unit < chain.size(); ++unit) {
    const std::string& whole = chain[unit].name;
    for (std::size_t end = whole.find('.');; end = whole.find('.', end + 1)) {
      const std::string candidate = whole.substr(0, end);
      const std::size_t edits = edit_distance(name, candidate);
      if (edits < least) {
        least = edits;
        best = candidate;
      }
      if (end == std::string::npos) break;
    }
  }
  return best;
}

std::string list_of_units(const Chain& chain) {
  std::string list;
  for (std::size_t unit = 0; unit < std::min(chain.size(), kShownUnits); ++unit) {
    list += (unit ? ", " : "") + chain[unit].name;
  }
  if (chain.size() > kShownUnits) list += ", ... " + chain[chain.size() - 1].name;
  return list;
}

uint32_t begin_of(const Chain& chain, const std::string& name) {
  const std::size_t unit = find_unit(chain, name);
  if (unit == chain.size()) {
    throw sdk::invalid_argument("the model has no unit '" + name + "', and none under it; the nearest is '" +
                                nearest(chain, name) + "'; its units are " + list_of_units(chain));
  }
  if (unit == 0) {
    throw sdk::invalid_argument(
        "'" + name + "' is where the model begins, so that the first part would be empty; name a later unit");
  }
  if (!chain.can_begin(unit)) {
    throw sdk::invalid_argument("no part can begin at '" + name + "', because '" + chain[unit].name + "' stays with '" +
                                chain[unit - 1].name + "'; the log says why; name another unit");
  }
  return static_cast<uint32_t>(unit);
}

}  // namespace

Cut named_cut(const Chain& chain, std::string_view names, std::size_t num_parts) {
  const std::vector<std::string> all = split(names);
  if (all.size() + 1 != num_parts) {
    throw sdk::invalid_argument(std::to_string(num_parts) + " parts need " + std::to_string(num_parts - 1) +
                                " names, joined by '+', of the modules that begin the later ones, but '" +
                                std::string(names) + "' has " + std::to_string(all.size()) +
                                "; name as many, or leave cut out");
  }
  Cut cut{0};
  for (const std::string& name : all) {
    const uint32_t unit = begin_of(chain, name);
    if (std::find(cut.begin(), cut.end(), unit) != cut.end()) {
      throw sdk::invalid_argument("two parts would begin at '" + chain[unit].name + "'; name another unit than '" +
                                  name + "'");
    }
    cut.push_back(unit);
  }
  std::sort(cut.begin(), cut.end());
  return cut;
}

}  // namespace cohort::balanced
