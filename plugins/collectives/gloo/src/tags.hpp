// Tags of messages: which communicator they belong to, and a trace of the operation. Ranks that disagree on an
// operation wait for tags that never come, instead of taking each other's bytes.
#pragma once

#include <cstdint>
#include <initializer_list>

#include <cohort/sdk/hash.hpp>

namespace cohort::gloo {

constexpr int kTagBits = 30;  // that Mesh takes
constexpr int kSignatureBits = 19;
constexpr int kMaxNumber = (1 << (kTagBits - kSignatureBits)) - 2;
constexpr int32_t kNothingTag = (kMaxNumber + 1) << kSignatureBits;  // is never sent
constexpr int32_t kRandomTag = kNothingTag + 1;                      // what a challenge sends
constexpr int32_t kAnswerTag = kNothingTag + 2;

/// `number` is the communicator's; `signature` is what all ranks know of the operation.
constexpr int32_t tag_of(int number, std::initializer_list<uint64_t> signature) {
  const uint64_t hash = sdk::Hash(signature).value();
  return (number << kSignatureBits) | static_cast<int32_t>(hash & ((1u << kSignatureBits) - 1));
}

}  // namespace cohort::gloo
