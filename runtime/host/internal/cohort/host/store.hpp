// The key-value store that the ranks of a job meet in, as the host uses it.
//
// Store is implemented by LibTorch's TCP store in the runtime and by memory in tests; a plugin may hand over one of its
// own as a cohort_store. Every function may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <cohort/api/store.h>

namespace cohort::host {

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, std::string_view value) = 0;
  /// Waits until the key exists; nothing where the timeout passes first.
  virtual std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) = 0;
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
  virtual void remove(const std::string& key) = 0;
  virtual uint64_t count() = 0;
  /// Every rank has found the store: what helped them find it is not needed any more.
  virtual void all_ranks_met() {}
  /// From now on a call that gets no answer from whoever serves the store throws after this time.
  virtual void limit_calls(std::chrono::milliseconds) {}
  /// Ends running calls; they and all later ones throw.
  virtual void give_up() {}
};

/// Shows a Store as a cohort_store. Borrows it; exceptions become UNAVAILABLE.
class AbiStore {
 public:
  explicit AbiStore(Store& store);
  AbiStore(const AbiStore&) = delete;
  AbiStore& operator=(const AbiStore&) = delete;
  cohort_store* get() { return &abi_; }

 private:
  cohort_store abi_;
};

/// Shows a cohort_store as a Store in which every key begins with `prefix`. Borrows it. Throws PeerFailed where the
/// store fails. `count` is of the whole store.
class PrefixedStore final : public Store {
 public:
  PrefixedStore(cohort_store* store, std::string prefix);
  void set(const std::string& key, std::string_view value) override;
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override;
  std::optional<std::string> try_get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  void remove(const std::string& key) override;
  uint64_t count() override;

 private:
  cohort_store* store_;
  std::string prefix_;
};

/// A part of a store as plugins see it: every key begins with a prefix.
struct StorePart {
  StorePart(cohort_store* store, std::string prefix) : prefixed(store, std::move(prefix)), abi(prefixed) {}
  PrefixedStore prefixed;
  AbiStore abi;
};

/// One rank's part in an agreement.
struct Agreement {
  Store& store;
  int rank;
  int world_size;
  std::chrono::nanoseconds timeout;
  std::string who;        ///< this rank in messages: "rank 1 (pid 4711 on host)"
  uint64_t sequence = 0;  ///< the same on every rank, different for every agreement of a run
};

/// Every rank gives a text; returns where all are equal. Else throws the same UserError on every rank: `problem`, then
/// a table of the lines that differ, by rank. Throws PeerFailed that names the missing ranks at the deadline.
/// Collective.
void agree(const Agreement& agreement, const std::string& topic, std::string_view text, std::string_view problem);
/// Texts with the same one are the same.
uint64_t fingerprint(std::string_view text);
/// What agree throws where texts differ, for ranks that have found that out by another way. Collective.
[[noreturn]] void throw_difference(const Agreement& agreement, const std::string& topic, std::string_view text,
                                   std::string_view problem);

}  // namespace cohort::host
