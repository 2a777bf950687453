// A store in which the others have written whatever an input says. Nothing waits.
#pragma once

#include <limits>
#include <map>

#include <cohort/host/store.hpp>

#include "fuzz.hpp"

namespace cohort::fuzz {

class HostileStore final : public host::Store {
 public:
  /// Takes a value off the input at each question: one byte of length, two where that is 0xf0; 0xfd: what this rank has
  /// set last, with another line; 0xfe: no such key; 0xff: the store is gone. What it has set itself it reads back.
  explicit HostileStore(Input& input) : input_(input) {}

  void set(const std::string& key, std::string_view value) override { last_ = own_[key] = value; }
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds) override { return try_get(key); }
  std::optional<std::string> try_get(const std::string& key) override {
    if (const auto own = own_.find(key); own != own_.end()) return own->second;
    if (input_.is_done()) return std::nullopt;
    const uint8_t kind = input_.byte();
    if (kind == 0xff) throw PeerFailed("the store is gone");
    if (kind == 0xfe) return std::nullopt;
    if (kind == 0xfd) return last_with_another_line();
    return input_.take(kind == 0xf0 ? input_.number(2) : kind);
  }
  /// So many that nobody is waited for.
  int64_t add(const std::string&, int64_t) override { return std::numeric_limits<int64_t>::max(); }
  void remove(const std::string& key) override { own_.erase(key); }
  uint64_t count() override { return own_.size(); }

 private:
  Input& input_;
  std::map<std::string, std::string> own_;
  std::string last_;

  std::string last_with_another_line() {
    std::size_t begin = 0;
    for (int line = input_.byte() % 8; line > 0 && begin < last_.size(); --line) {
      begin = std::min(last_.find('\n', begin), last_.size()) + 1;
    }
    if (begin > last_.size()) return last_;
    const std::size_t end = std::min(last_.find('\n', begin), last_.size());
    return last_.substr(0, begin) + input_.take(input_.byte()) + last_.substr(end);
  }
};

}  // namespace cohort::fuzz
