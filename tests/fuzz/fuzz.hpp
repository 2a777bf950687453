// Shared by the fuzz targets: how an input is taken apart, and what a refusal has to be.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <cohort/host/error.hpp>
#include <cohort/host/log.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);

namespace cohort::fuzz {

/// Fails the input unless what has to hold does.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

/// Fails the input unless the text is one line with something on it. A table may follow a first line that announces it
/// where `has_table`.
inline void require_sentence(std::string_view text, bool has_table = false) {
  if (has_table) text = text.substr(0, text.find('\n'));
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  require(!text.empty() && std::ranges::none_of(text, is_control), "no sentence of one line: " + std::string(text));
}

/// True where the call returns, false where it throws an Exception with a sentence. Whatever else it throws fails the
/// input.
template <class Exception = Error, class Call>
bool accepts(Call&& call, bool has_table = false) {
  try {
    call();
    return true;
  } catch (const Exception& error) {
    require_sentence(error.what(), has_table);
    return false;
  }
}

inline host::LogSettings no_log() {
  host::LogSettings settings;
  settings.level = host::LogLevel::kOff;
  return settings;
}

/// Takes numbers and texts off the front of an input. At its end there are zeros and empty texts.
class Input {
 public:
  Input(const uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool is_done() const { return rest_.empty(); }
  std::string rest() const { return std::string(rest_); }
  uint8_t byte() { return static_cast<uint8_t>(number(1)); }
  /// Little-endian, of so many bytes.
  uint64_t number(std::size_t bytes) {
    uint64_t number = 0;
    const std::string text = take(bytes);
    for (std::size_t i = 0; i < text.size(); ++i) number |= uint64_t{static_cast<uint8_t>(text[i])} << 8 * i;
    return number;
  }
  /// So many bytes, fewer at the end.
  std::string take(std::size_t bytes) {
    const std::string text(rest_.substr(0, bytes));
    rest_.remove_prefix(text.size());
    return text;
  }
  /// Up to a NUL byte, which is taken off as well.
  std::string text() {
    const std::string text = take(std::min(rest_.find('\0'), rest_.size()));
    take(1);
    return text;
  }

 private:
  std::string_view rest_;
};

/// Bytes as a file, for code that wants a path.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes) : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
    const bool written = ::write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    if (!written) throw std::runtime_error("no file can be made in memory");
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace cohort::fuzz
