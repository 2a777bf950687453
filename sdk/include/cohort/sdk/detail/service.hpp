// A service table of the host, looked up once. Internal to the SDK.
#pragma once

#include <atomic>
#include <string>

#include <cohort/api/host.h>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace detail {

/// A service table. As long as the host lacks it, every call asks again.
template <class Table>
class Service {
 public:
  explicit Service(const char* id) : id_(id) {}

  const Table* find(const cohort_host* host) const {
    const Table* table = table_.load(std::memory_order_acquire);
    if (!table) {
      table = static_cast<const Table*>(host->get_interface(host, id_));
      table_.store(table, std::memory_order_release);
    }
    return table;
  }
  const Table& get(const cohort_host* host) const {
    const Table* table = find(host);
    if (!table) throw failed_precondition(std::string("the host does not offer ") + id_ + " at this point");
    return *table;
  }

 private:
  const char* id_;
  mutable std::atomic<const Table*> table_{nullptr};
};

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk
