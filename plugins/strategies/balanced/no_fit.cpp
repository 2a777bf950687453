#include "no_fit.hpp"

#include <algorithm>

#include "partition.hpp"

namespace cohort::balanced {
namespace {

constexpr uint64_t kFew = 16;  // of a unit: then the smaller one tells more
constexpr const char* kWayOut = "more --devices, or smaller pieces, need less: ";

std::size_t end_of(const Chain& chain, const Cut& cut, std::size_t part) {
  return part + 1 < cut.size() ? cut[part + 1] : chain.size();
}

/// Returns a size as options are written, rounded up.
std::string size_text(uint64_t bytes) {
  const char* unit = "";
  uint64_t count = bytes;
  for (const char* larger : {"KiB", "MiB"}) {
    if (count == 0 || (count < kFew * 1024 && count % 1024 != 0)) break;
    count = (count + 1023) / 1024;
    unit = larger;
  }
  return std::to_string(count) + unit;
}

/// Returns "part 0 (embed to blocks.3) needs 24MiB of 20MiB", for all parts. It is one line, as messages of plugins
/// are.
std::string list_of(const Chain& chain, const std::vector<Room>& rooms, const Cut& cut) {
  std::string list;
  for (std::size_t part = 0; part < cut.size(); ++part) {
    const std::size_t end = end_of(chain, cut, part);
    const std::string first = chain[cut[part]].name, last = chain[end - 1].name;
    list += (part == 0 ? "part " : ", part ") + std::to_string(part) + " (" + first;
    if (first != last) list += " to " + last;
    list += ") needs " + size_text(chain.bytes(cut[part], end, rooms[part]));
    if (rooms[part].limit != 0) list += " of " + size_text(rooms[part].limit);
  }
  return list;
}

}  // namespace

uint64_t needed_bytes(const Chain& chain, const std::vector<Room>& rooms, const Cut& cut) {
  uint64_t most = 0;
  for (std::size_t part = 0; part < cut.size(); ++part) {
    most = std::max(most, chain.bytes(cut[part], end_of(chain, cut, part), rooms[part]));
  }
  return most;
}

std::string named_cut_does_not_fit(const Chain& chain, const std::vector<Room>& rooms, const Cut& cut) {
  return "the parts that cut= names do not fit into the devices; they need memory=" +
         size_text(needed_bytes(chain, rooms, cut)) + "; " + kWayOut + list_of(chain, rooms, cut);
}

std::string no_cut_fits(const Chain& chain, const std::vector<Room>& rooms) {
  const uint64_t least = smallest_limit(chain, rooms).value();
  std::vector<Room> wide = rooms;
  for (Room& room : wide) room.limit = least;
  const Cut cut = fastest_cut(chain, wide).value();
  return "no cut of the model's " + std::to_string(chain.size()) + " units into " + std::to_string(rooms.size()) +
         " parts fits into the devices; the one that needs least needs memory=" + size_text(least) + "; " + kWayOut +
         list_of(chain, rooms, cut);
}

}  // namespace cohort::balanced
