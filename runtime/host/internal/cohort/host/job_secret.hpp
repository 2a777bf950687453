// The secret of a job, which keeps strangers out, and the keys that are made of it.
//
// A launcher that starts all ranks makes a secret and hands it to them in a descriptor; without such a launcher the
// user gives one to all ranks, in a file or a variable. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <cohort/host/environment.hpp>

namespace cohort::host {

/// Bits that only the ranks of a job know.
using Key = std::array<unsigned char, 32>;

/// Fills memory with random bits of the system.
void fill_with_random_bits(void* bytes, std::size_t nbytes);
Key random_key();

/// Returns the HMAC-SHA-512-256 of `text` under `from`: nobody finds one of the two keys by the other.
Key derived_key(const Key& from, std::string_view text);

class JobSecret {
 public:
  /// Throws UserError if `text` has fewer than 16 characters; `where` names its source.
  JobSecret(std::string text, const std::string& where);
  static JobSecret random();

  /// Returns what a file or a variable holds.
  const std::string& text() const { return text_; }
  Key key() const { return key_; }

 private:
  std::string text_;
  Key key_;
};

/// Reads the descriptor COHORT_JOB_SECRET_FD, the file COHORT_JOB_SECRET_FILE or the text COHORT_JOB_SECRET; returns
/// nothing if none is set. White space at the end does not count. Throws UserError if a file may be read by others or
/// cannot be read, if there are several, or if the text is short.
std::optional<JobSecret> job_secret(const Variables& variables);

/// Returns whether a variable holds a secret or leads to one, and so belongs to one machine.
bool is_of_job_secret(std::string_view variable);

}  // namespace cohort::host
