// A store that passes every call on to another one, to be derived from where some are to be seen or changed.
#pragma once

#include <cohort/host/store.hpp>

namespace cohort::toy {

class ForwardingStore : public host::Store {
 public:
  /// Borrows the store.
  explicit ForwardingStore(host::Store& store) : store_(store) {}
  void set(const std::string& key, std::string_view value) override { store_.set(key, value); }
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override {
    return store_.get(key, timeout);
  }
  std::optional<std::string> try_get(const std::string& key) override { return store_.try_get(key); }
  int64_t add(const std::string& key, int64_t amount) override { return store_.add(key, amount); }
  void remove(const std::string& key) override { store_.remove(key); }
  uint64_t count() override { return store_.count(); }

 private:
  host::Store& store_;
};

}  // namespace cohort::toy
