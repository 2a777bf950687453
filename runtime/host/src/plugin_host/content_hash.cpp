#include "plugin_host/content_hash.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>

#include "plugin_host/refuse.hpp"

namespace cohort::host {
namespace {

constexpr uint64_t kOffsetBasis = 0xcbf29ce484222325;
constexpr uint64_t kPrime = 0x100000001b3;

std::string to_hex(uint64_t number) {
  std::string digits(16, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, number >>= 4) {
    *digit = "0123456789abcdef"[number & 15];
  }
  return digits;
}

}  // namespace

std::string content_hash(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::array<char, 65536> block;
  uint64_t hash = kOffsetBasis;
  while (in) {
    in.read(block.data(), block.size());
    for (std::streamsize i = 0; i < in.gcount(); ++i) {
      hash = (hash ^ static_cast<unsigned char>(block[static_cast<std::size_t>(i)])) * kPrime;
    }
  }
  if (!in.eof()) refuse(file, "it cannot be read; check its permissions and the disk");
  return to_hex(hash);
}

}  // namespace cohort::host
