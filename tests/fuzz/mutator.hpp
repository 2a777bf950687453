// Inputs made of others by a few random changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cohort::fuzz {

using Bytes = std::vector<uint8_t>;

/// The words of a dictionary in libFuzzer's format: one "word" on a line, with \\, \" and \xNN; none for "".
std::vector<Bytes> read_dictionary(const std::string& file);

class Mutator {
 public:
  /// `corpus` is not empty. The same seed gives the same inputs.
  Mutator(std::vector<Bytes> corpus, std::vector<Bytes> dictionary, uint64_t seed);
  /// One of the corpus after one to six changes.
  Bytes next();

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  void change(Bytes& bytes);
  void change_bytes(Bytes& bytes);
  void put(Bytes& bytes, const Bytes& piece);
  void put_number(Bytes& bytes);
  void replace_digits(Bytes& bytes);
  Bytes piece_of(const Bytes& bytes);

  std::vector<Bytes> corpus_, dictionary_;
  std::mt19937_64 random_;
};

}  // namespace cohort::fuzz
