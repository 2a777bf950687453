#include "loggers/appended_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

constexpr uint64_t kMaxLogBytes = 1 << 30;

/// Returns the descriptor, or -1. A pipe that nobody reads must not block the program.
int open_to_append(const std::filesystem::path& path) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666);
}

}  // namespace

AppendedFile::AppendedFile(std::filesystem::path path) : path_(std::move(path)), descriptor_(open_to_append(path_)) {
  if (descriptor_ < 0) fail(std::generic_category().message(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) return;
  ::close(descriptor_);
  fail("it is not a regular file");
}

AppendedFile::~AppendedFile() {
  ::close(descriptor_);
}

void AppendedFile::append(std::string_view bytes) {
  struct stat before {};
  if (::fstat(descriptor_, &before) != 0) fail(std::generic_category().message(errno));
  const auto part = std::as_bytes(std::span(bytes));
  try {
    host::write_parts(descriptor_, path_, std::span(&part, 1));
  } catch (const UserError&) {
    cut_to(static_cast<uint64_t>(before.st_size));  // whatever follows would be taken for its rest
    throw;
  }
}

std::string AppendedFile::whole_lines() {
  std::string text = host::read_text_file(path_, kMaxLogBytes);
  const size_t whole = text.rfind('\n') + 1;  // 0 if there is no line
  if (whole == text.size()) return text;
  cut_to(whole);
  text.resize(whole);
  return text;
}

void AppendedFile::replace(std::string_view text) {
  host::write_file(path_, text);
  const int descriptor = open_to_append(path_);
  if (descriptor < 0) fail(std::generic_category().message(errno));
  ::close(std::exchange(descriptor_, descriptor));
}

void AppendedFile::flush() {
  if (::fdatasync(descriptor_) != 0) fail(std::generic_category().message(errno));
}

void AppendedFile::cut_to(uint64_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail(std::generic_category().message(errno));
}

void AppendedFile::fail(const std::string& reason) const {
  throw UserError("cannot write " + host::on_one_line(path_.native()) + ": " + reason);
}

}  // namespace cohort
