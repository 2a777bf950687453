#include <cohort/host/job_secret.hpp>

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {
namespace {

constexpr const char* kDescriptor = "COHORT_JOB_SECRET_FD";
constexpr const char* kFile = "COHORT_JOB_SECRET_FILE";
constexpr const char* kText = "COHORT_JOB_SECRET";
constexpr std::size_t kShortest = 16;
constexpr std::size_t kLongestSecret = 4096;
constexpr const char* kToMake = "head -c 32 /dev/urandom | base64 makes one";

static_assert(crypto_auth_BYTES == sizeof(Key) && crypto_auth_KEYBYTES == sizeof(Key));

void start_sodium() {
  if (::sodium_init() < 0) throw Error(ExitCode::kTrainingFailed, "the system gives no random bits");
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// Returns the value of a variable, or "" if it is not set.
std::string value_of(const Variables& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

JobSecret inherited(const std::string& number) {
  int descriptor = -1;
  const auto [stop, failure] = std::from_chars(number.data(), number.data() + number.size(), descriptor);
  std::array<char, kLongestSecret> text{};
  const bool is_number = failure == std::errc{} && stop == number.data() + number.size() && descriptor >= 0;
  const ssize_t length = is_number ? ::pread(descriptor, text.data(), text.size(), 0) : -1;
  if (length < 0) {
    throw UserError(std::string(kDescriptor) + "=" + on_one_line(number) +
                    " is no open descriptor: what runs between the launcher and this program closes them; let it keep "
                    "them (in Python's subprocess, close_fds=False)");
  }
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // not for the children of a training program
  return {std::string(text.data(), static_cast<std::size_t>(length)), kDescriptor};
}

/// Returns whether other users may read a file, so that it is no secret. What the system's administrator lays out may
/// be readable by one group: Kubernetes does so for containers that do not run as root.
bool is_public(const struct stat& status) {
  const mode_t of_others = status.st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
  return (status.st_mode & of_others) != 0;
}

JobSecret from_file(const std::string& path) {
  const std::string where = std::string(kFile) + "=" + on_one_line(path);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && is_public(status)) {
    throw UserError(where + " may be read by other users; make it yours alone with chmod 600");
  }
  return {read_text_file(path, kLongestSecret), where};
}

}  // namespace

void fill_with_random_bits(void* bytes, std::size_t nbytes) {
  start_sodium();
  ::randombytes_buf(bytes, nbytes);
}

Key random_key() {
  Key key;
  fill_with_random_bits(key.data(), key.size());
  return key;
}

Key derived_key(const Key& from, std::string_view text) {
  Key key;
  ::crypto_auth(key.data(), bytes_of(text), text.size(), from.data());
  return key;
}

JobSecret::JobSecret(std::string text, const std::string& where) : text_(std::move(text)) {
  text_.erase(text_.find_last_not_of(" \t\r\n") + 1);
  if (text_.size() < kShortest) {
    throw UserError(where + " holds fewer than " + std::to_string(kShortest) +
                    " characters, which others could guess; " + kToMake);
  }
  ::crypto_generichash(key_.data(), key_.size(), bytes_of(text_), text_.size(), nullptr, 0);
}

JobSecret JobSecret::random() {
  const Key bits = random_key();
  std::string text(2 * bits.size() + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), bits.data(), bits.size());
  text.pop_back();
  return {std::move(text), "the system"};
}

std::optional<JobSecret> job_secret(const Variables& variables) {
  const std::string descriptor = value_of(variables, kDescriptor), file = value_of(variables, kFile),
                    text = value_of(variables, kText);
  if (!descriptor.empty()) return inherited(descriptor);  // the launcher has read the others
  if (!file.empty() && !text.empty()) {
    throw UserError(std::string(kFile) + " and " + kText + " are both set; unset one of them");
  }
  if (!file.empty()) return from_file(file);
  if (!text.empty()) return JobSecret(text, kText);
  return std::nullopt;
}

bool is_of_job_secret(std::string_view variable) {
  return variable == kDescriptor || variable == kFile || variable == kText;
}

}  // namespace cohort::host
