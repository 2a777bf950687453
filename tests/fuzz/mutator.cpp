#include "mutator.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace cohort::fuzz {
namespace {

constexpr std::size_t kLongest = 8192;

// Numbers at which arithmetic goes wrong.
constexpr std::array<uint64_t, 12> kNumbers{0,
                                            1,
                                            0x7f,
                                            0xff,
                                            0x7fff,
                                            0xffff,
                                            0x7fffffff,
                                            0x80000000,
                                            0xffffffff,
                                            std::numeric_limits<int64_t>::max(),
                                            uint64_t{1} << 63,
                                            std::numeric_limits<uint64_t>::max()};
constexpr std::array<std::string_view, 10> kDigits{"0",
                                                   "-1",
                                                   "1e999",
                                                   "0.5",
                                                   "2147483648",
                                                   "-2147483649",
                                                   "9223372036854775807",
                                                   "9223372036854775808",
                                                   "18446744073709551615",
                                                   "99999999999999999999"};

std::ptrdiff_t place(std::size_t index) {
  return static_cast<std::ptrdiff_t>(index);
}

// The text between the first and the last quote of a line.
Bytes word_of(const std::string& line) {
  const std::size_t begin = line.find('"') + 1, end = line.rfind('"');
  if (begin == 0 || end < begin) throw std::runtime_error("no word of a dictionary: " + line);
  Bytes word;
  for (std::size_t i = begin; i < end; ++i) {
    if (line[i] == '\\' && line.at(i + 1) == 'x') {
      word.push_back(static_cast<uint8_t>(std::stoul(line.substr(i + 2, 2), nullptr, 16)));
      i += 3;
    } else {
      if (line[i] == '\\') ++i;
      word.push_back(static_cast<uint8_t>(line[i]));
    }
  }
  return word;
}

}  // namespace

std::vector<Bytes> read_dictionary(const std::string& file) {
  std::vector<Bytes> words;
  std::ifstream in(file);
  if (!in && !file.empty()) throw std::runtime_error(file + " cannot be read");
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') words.push_back(word_of(line));
  }
  return words;
}

Mutator::Mutator(std::vector<Bytes> corpus, std::vector<Bytes> dictionary, uint64_t seed)
    : corpus_(std::move(corpus)), dictionary_(std::move(dictionary)), random_(seed) {}

Bytes Mutator::next() {
  Bytes bytes = corpus_[below(corpus_.size())];
  for (std::size_t changes = 1 + below(6); changes > 0; --changes) change(bytes);
  if (bytes.size() > kLongest) bytes.resize(kLongest);
  return bytes;
}

void Mutator::change(Bytes& bytes) {
  switch (below(8)) {
    case 0:
      return put(bytes, piece_of(corpus_[below(corpus_.size())]));
    case 1:
      return put(bytes, piece_of(bytes));
    case 2:
      if (!dictionary_.empty()) put(bytes, dictionary_[below(dictionary_.size())]);
      return;
    case 3:
      return put_number(bytes);
    case 4:
      return replace_digits(bytes);
    case 5:
      bytes.resize(bytes.size() - below(std::min<std::size_t>(bytes.size(), 16) + 1));
      return;
    default:
      return change_bytes(bytes);
  }
}

// One byte or a few: other ones, none, or more.
void Mutator::change_bytes(Bytes& bytes) {
  const std::size_t begin = below(bytes.size() + 1);
  if (begin == bytes.size() || below(4) == 0) {
    bytes.insert(bytes.begin() + place(begin), static_cast<uint8_t>(random_()));
  } else if (below(3) == 0) {
    const std::size_t length = 1 + below(std::min<std::size_t>(bytes.size() - begin, 8));
    bytes.erase(bytes.begin() + place(begin), bytes.begin() + place(begin + length));
  } else if (below(2) == 0) {
    bytes[begin] ^= static_cast<uint8_t>(1 << below(8));
  } else {
    bytes[begin] = static_cast<uint8_t>(random_());
  }
}

// Between what is there, or over it.
void Mutator::put(Bytes& bytes, const Bytes& piece) {
  const std::size_t begin = below(bytes.size() + 1);
  const std::size_t over = below(2) == 0 ? 0 : std::min(piece.size(), bytes.size() - begin);
  bytes.erase(bytes.begin() + place(begin), bytes.begin() + place(begin + over));
  bytes.insert(bytes.begin() + place(begin), piece.begin(), piece.end());
}

void Mutator::put_number(Bytes& bytes) {
  const uint64_t number = kNumbers[below(kNumbers.size())] + below(3) - 1;
  Bytes piece(std::size_t{1} << below(4));
  for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<uint8_t>(number >> 8 * i);
  if (below(2) == 0) std::ranges::reverse(piece);
  put(bytes, piece);
}

void Mutator::replace_digits(Bytes& bytes) {
  const auto is_digit = [](uint8_t byte) { return std::isdigit(byte) != 0; };
  const auto begin = std::find_if(bytes.begin() + place(below(bytes.size() + 1)), bytes.end(), is_digit);
  if (begin == bytes.end()) return;
  const auto after = bytes.erase(begin, std::find_if_not(begin, bytes.end(), is_digit));
  const std::string_view digits = kDigits[below(kDigits.size())];
  bytes.insert(after, digits.begin(), digits.end());
}

Bytes Mutator::piece_of(const Bytes& bytes) {
  const std::size_t begin = below(bytes.size() + 1);
  const std::size_t end = begin + below(bytes.size() - begin + 1);
  return {bytes.begin() + place(begin), bytes.begin() + place(end)};
}

}  // namespace cohort::fuzz
