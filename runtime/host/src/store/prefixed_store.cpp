
#include <cohort/host/error.hpp>
#include <cohort/host/store.hpp>

namespace cohort::host {
namespace {

constexpr size_t kUsualValueBytes = 4096;

void require(cohort_status status, const std::string& key) {
  if (status == COHORT_OK) return;
  throw PeerFailed("the rendezvous store failed on key '" + key + "' (" + status_name(status) +
                   "); the process that serves it, rank 0 or the launcher, is probably gone");
}

// Calls with a buffer of the usual size and once more where the value is longer.
template <class Call>
std::optional<std::string> read_value(Call&& call, cohort_status absent, const std::string& key) {
  std::string value(kUsualValueBytes, '\0');
  uint64_t nbytes = 0;
  cohort_status status = call(value.data(), value.size(), &nbytes);
  if (status == COHORT_RESOURCE_EXHAUSTED) {
    value.resize(nbytes);
    status = call(value.data(), value.size(), &nbytes);
  }
  if (status == absent) return std::nullopt;
  require(status, key);
  value.resize(nbytes);
  return value;
}

}  // namespace

PrefixedStore::PrefixedStore(cohort_store* store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}

void PrefixedStore::set(const std::string& key, std::string_view value) {
  require(store_->vt->set(store_, (prefix_ + key).c_str(), value.data(), value.size()), key);
}

std::optional<std::string> PrefixedStore::get(const std::string& key, std::chrono::nanoseconds timeout) {
  const std::string full = prefix_ + key;
  return read_value(
      [&](char* value, uint64_t capacity, uint64_t* nbytes) {
        return store_->vt->get(store_, full.c_str(), timeout.count(), value, capacity, nbytes);
      },
      COHORT_DEADLINE_EXCEEDED, key);
}

std::optional<std::string> PrefixedStore::try_get(const std::string& key) {
  const std::string full = prefix_ + key;
  return read_value(
      [&](char* value, uint64_t capacity, uint64_t* nbytes) {
        return store_->vt->try_get(store_, full.c_str(), value, capacity, nbytes);
      },
      COHORT_NOT_FOUND, key);
}

int64_t PrefixedStore::add(const std::string& key, int64_t amount) {
  int64_t sum = 0;
  require(store_->vt->add(store_, (prefix_ + key).c_str(), amount, &sum), key);
  return sum;
}

void PrefixedStore::remove(const std::string& key) {
  require(store_->vt->remove(store_, (prefix_ + key).c_str()), key);
}

uint64_t PrefixedStore::count() {
  uint64_t keys = 0;
  require(store_->vt->count(store_, &keys), "(count)");
  return keys;
}

}  // namespace cohort::host
