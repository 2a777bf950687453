// Which accesses to memory are ordered, by a vector clock for each stream.
//
// Every piece of work has a number on its stream. The clock of a stream says, for each stream, up to which number work
// is ordered before what the stream does next: an event carries it to other streams, a wait of the host to all of them
// (work that any thread has waited for counts for every thread: threads hand results over in ways that nobody sees
// here). Two accesses to the same bytes, one of them a write, race if the later one's clock does not cover the earlier.
// Not synchronized: the driver holds its lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fakedrv {

class Clock {
 public:
  uint64_t at(size_t stream) const { return stream < numbers_.size() ? numbers_[stream] : 0; }
  void advance(size_t stream, uint64_t number) {
    if (stream >= numbers_.size()) numbers_.resize(stream + 1);
    numbers_[stream] = std::max(numbers_[stream], number);
  }
  void join(const Clock& other) {
    for (size_t stream = 0; stream < other.numbers_.size(); ++stream) advance(stream, other.numbers_[stream]);
  }

 private:
  std::vector<uint64_t> numbers_;  // by stream
};

class Races {
 public:
  struct Access {
    size_t stream;
    uint64_t number;
    std::string work;
    bool is_write;
  };

  /// Returns, in words, an earlier access to the bytes that nothing orders before this one, or "".
  std::string find(const void* memory, uint64_t nbytes, const Access& access, const Clock& clock) const;
  /// Notes an access.
  void add(const void* memory, uint64_t nbytes, const Access& access);
  /// Forgets accesses that a wait of the host has put before everything that follows.
  void forget(const Clock& host);

 private:
  struct Piece {
    uintptr_t end;
    std::vector<Access> accesses;  // the last write, then reads since then
  };
  std::map<uintptr_t, Piece> pieces_;  // by first byte; disjoint
  uint64_t added_ = 0;

  void split_at(uintptr_t address);
};

}  // namespace fakedrv
