// A fast hash for message tags and for comparisons between ranks. It does not protect against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace cohort::sdk {
inline namespace v1 {

class Hash {
 public:
  constexpr Hash() = default;
  constexpr explicit Hash(std::initializer_list<uint64_t> words) {
    for (const uint64_t word : words) add(word);
  }

  constexpr void add(uint64_t word) {
    value_ = (value_ ^ word) * 0xff51afd7ed558ccdu;
    value_ ^= value_ >> 32;  // A multiplication carries upwards only, so the top bits have to be folded down.
  }
  /// Adds `size` bytes in words of 8. Zeros complete the last word, so add the size, too, if it may vary.
  void add(const void* bytes, std::size_t size) {
    const char* from = static_cast<const char*>(bytes);
    uint64_t word = 0;
    for (; size >= sizeof word; from += sizeof word, size -= sizeof word) {
      std::memcpy(&word, from, sizeof word);
      add(word);
    }
    if (size == 0) return;
    word = 0;
    std::memcpy(&word, from, size);
    add(word);
  }
  constexpr uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0x9e3779b97f4a7c15u;
};

}  // namespace v1
}  // namespace cohort::sdk
