#include "races.hpp"

namespace fakedrv {
namespace {

std::string describe(const Races::Access& later, const Races::Access& earlier) {
  return later.work + " on stream " + std::to_string(later.stream) + (later.is_write ? " writes" : " reads") +
         " what " + earlier.work + " on stream " + std::to_string(earlier.stream) +
         (earlier.is_write ? " writes" : " reads") + ", and nothing orders the two";
}

}  // namespace

void Races::split_at(uintptr_t address) {
  auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return;
  const auto piece = std::prev(after);
  if (piece->first == address || piece->second.end <= address) return;
  pieces_.emplace_hint(after, address, piece->second);
  piece->second.end = address;
}

std::string Races::find(const void* memory, uint64_t nbytes, const Access& access, const Clock& clock) const {
  const auto begin = reinterpret_cast<uintptr_t>(memory), end = begin + nbytes;
  auto piece = pieces_.upper_bound(begin);
  if (piece != pieces_.begin() && std::prev(piece)->second.end > begin) --piece;
  for (; piece != pieces_.end() && piece->first < end; ++piece) {
    for (const Access& earlier : piece->second.accesses) {
      const bool may_conflict = access.is_write || earlier.is_write;
      const bool is_ordered = earlier.stream == access.stream || clock.at(earlier.stream) >= earlier.number;
      if (may_conflict && !is_ordered) return describe(access, earlier);
    }
  }
  return "";
}

void Races::add(const void* memory, uint64_t nbytes, const Access& access) {
  const auto begin = reinterpret_cast<uintptr_t>(memory), end = begin + nbytes;
  split_at(begin);
  split_at(end);
  uintptr_t covered = begin;
  const auto last = pieces_.lower_bound(end);
  for (auto piece = pieces_.lower_bound(begin); piece != last; ++piece) {
    if (piece->first > covered) pieces_.emplace_hint(piece, covered, Piece{piece->first, {access}});
    covered = piece->second.end;
    std::vector<Access>& accesses = piece->second.accesses;
    if (access.is_write) accesses.clear();
    std::erase_if(accesses,
                  [&](const Access& earlier) { return !earlier.is_write && earlier.stream == access.stream; });
    accesses.push_back(access);
  }
  if (covered < end) pieces_.emplace_hint(last, covered, Piece{end, {access}});
}

void Races::forget(const Clock& host) {
  constexpr uint64_t kSeldom = 4096;
  if (++added_ % kSeldom != 0) return;
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    std::vector<Access>& accesses = piece->second.accesses;
    std::erase_if(accesses, [&](const Access& access) { return host.at(access.stream) >= access.number; });
    piece = accesses.empty() ? pieces_.erase(piece) : std::next(piece);
  }
}

}  // namespace fakedrv
