#include <cstring>

#include <cohort/host/store.hpp>

namespace cohort::host {
namespace {

Store& store_of(cohort_store* store) {
  return *static_cast<Store*>(store->data);
}

// Nothing may be thrown across the ABI; what a store throws means that it cannot be reached.
template <class Call>
cohort_status guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return COHORT_UNAVAILABLE;
  }
}

cohort_status copy_out(const std::optional<std::string>& found, cohort_status otherwise, void* value, uint64_t capacity,
                       uint64_t* nbytes) {
  if (!found) return otherwise;
  *nbytes = found->size();
  if (found->size() > capacity) return COHORT_RESOURCE_EXHAUSTED;
  std::memcpy(value, found->data(), found->size());
  return COHORT_OK;
}

cohort_status set(cohort_store* store, const char* key, const void* value, uint64_t nbytes) noexcept {
  return guarded([&] {
    store_of(store).set(key, {static_cast<const char*>(value), nbytes});
    return COHORT_OK;
  });
}

cohort_status get(cohort_store* store, const char* key, int64_t timeout_ns, void* value, uint64_t capacity,
                  uint64_t* nbytes) noexcept {
  return guarded([&] {
    return copy_out(store_of(store).get(key, std::chrono::nanoseconds(timeout_ns)), COHORT_DEADLINE_EXCEEDED, value,
                    capacity, nbytes);
  });
}

cohort_status try_get(cohort_store* store, const char* key, void* value, uint64_t capacity, uint64_t* nbytes) noexcept {
  return guarded([&] { return copy_out(store_of(store).try_get(key), COHORT_NOT_FOUND, value, capacity, nbytes); });
}

cohort_status add(cohort_store* store, const char* key, int64_t amount, int64_t* sum) noexcept {
  return guarded([&] {
    *sum = store_of(store).add(key, amount);
    return COHORT_OK;
  });
}

cohort_status wait(cohort_store* store, const char* const* keys, uint64_t num_keys, int64_t timeout_ns) noexcept {
  return guarded([&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    for (uint64_t i = 0; i < num_keys; ++i) {
      const auto left = std::max(deadline - std::chrono::steady_clock::now(), std::chrono::nanoseconds(0));
      if (!store_of(store).get(keys[i], left)) return COHORT_DEADLINE_EXCEEDED;
    }
    return COHORT_OK;
  });
}

cohort_status remove(cohort_store* store, const char* key) noexcept {
  return guarded([&] {
    store_of(store).remove(key);
    return COHORT_OK;
  });
}

cohort_status count(cohort_store* store, uint64_t* num_keys) noexcept {
  return guarded([&] {
    *num_keys = store_of(store).count();
    return COHORT_OK;
  });
}

constexpr cohort_store_vt kVtable{sizeof(cohort_store_vt), 0, set, get, try_get, add, wait, remove, count};

}  // namespace

AbiStore::AbiStore(Store& store) : abi_{&kVtable, &store} {}

}  // namespace cohort::host
