#include "fork_store.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace cohort::test {

struct ForkStore::Table {
  struct Entry {
    char key[128];
    uint64_t nbytes;
    char value[4000];
  };

  pthread_mutex_t mutex;
  Entry entries[2048];

  static Table& of(cohort_store* store) { return *static_cast<Table*>(store->data); }

  // In memory of zeros.
  static Table* make(void* memory) {
    auto* table = new (memory) Table;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&table->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return table;
  }

  class Lock {
   public:
    explicit Lock(Table& table) : mutex_(&table.mutex) {
      // A rank may be killed while it holds the mutex; an entry is small enough to be whole or to fail a test.
      if (pthread_mutex_lock(mutex_) == EOWNERDEAD) pthread_mutex_consistent(mutex_);
    }
    ~Lock() { pthread_mutex_unlock(mutex_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    pthread_mutex_t* mutex_;
  };

  Entry* find(const char* key) {
    for (Entry& entry : entries) {
      if (std::strncmp(entry.key, key, sizeof entry.key) == 0) return &entry;
    }
    return nullptr;
  }

  cohort_status put(const char* key, const void* value, uint64_t nbytes) {
    if (std::strlen(key) >= sizeof(Entry::key) || nbytes > sizeof(Entry::value)) return COHORT_RESOURCE_EXHAUSTED;
    Entry* entry = find(key);
    if (!entry) entry = find("");
    if (!entry) return COHORT_RESOURCE_EXHAUSTED;
    std::memcpy(entry->value, value, nbytes);
    entry->nbytes = nbytes;
    std::memcpy(entry->key, key, std::strlen(key) + 1);
    return COHORT_OK;
  }

  static cohort_status set(cohort_store* store, const char* key, const void* value, uint64_t nbytes) noexcept {
    Table& table = of(store);
    const Lock lock(table);
    return table.put(key, value, nbytes);
  }

  static cohort_status try_get(cohort_store* store, const char* key, void* value, uint64_t capacity,
                               uint64_t* nbytes) noexcept {
    Table& table = of(store);
    const Lock lock(table);
    const Entry* entry = table.find(key);
    if (!entry) return COHORT_NOT_FOUND;
    *nbytes = entry->nbytes;
    if (entry->nbytes > capacity) return COHORT_RESOURCE_EXHAUSTED;
    std::memcpy(value, entry->value, entry->nbytes);
    return COHORT_OK;
  }

  template <class Try>
  static cohort_status poll(int64_t timeout_ns, Try try_once) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    while (true) {
      const cohort_status status = try_once();
      if (status != COHORT_NOT_FOUND) return status;
      if (std::chrono::steady_clock::now() >= deadline) return COHORT_DEADLINE_EXCEEDED;
      ::usleep(500);
    }
  }

  static cohort_status get(cohort_store* store, const char* key, int64_t timeout_ns, void* value, uint64_t capacity,
                           uint64_t* nbytes) noexcept {
    return poll(timeout_ns, [&] { return try_get(store, key, value, capacity, nbytes); });
  }

  static cohort_status add(cohort_store* store, const char* key, int64_t amount, int64_t* sum) noexcept {
    Table& table = of(store);
    const Lock lock(table);
    const Entry* entry = table.find(key);
    *sum = (entry ? std::stoll(std::string(entry->value, entry->nbytes)) : 0) + amount;
    const std::string text = std::to_string(*sum);
    return table.put(key, text.data(), text.size());
  }

  static cohort_status wait(cohort_store* store, const char* const* keys, uint64_t num_keys,
                            int64_t timeout_ns) noexcept {
    return poll(timeout_ns, [&] {
      Table& table = of(store);
      const Lock lock(table);
      for (uint64_t i = 0; i < num_keys; ++i) {
        if (!table.find(keys[i])) return COHORT_NOT_FOUND;
      }
      return COHORT_OK;
    });
  }

  static cohort_status remove(cohort_store* store, const char* key) noexcept {
    Table& table = of(store);
    const Lock lock(table);
    if (Entry* entry = table.find(key)) std::memset(entry->key, 0, sizeof entry->key);
    return COHORT_OK;
  }

  static cohort_status count(cohort_store* store, uint64_t* num_keys) noexcept {
    Table& table = of(store);
    const Lock lock(table);
    *num_keys = 0;
    for (const Entry& entry : table.entries) *num_keys += entry.key[0] != '\0';
    return COHORT_OK;
  }

  static constexpr cohort_store_vt kTable{sizeof(cohort_store_vt), 0, set, get, try_get, add, wait, remove, count};
};

namespace {

void* map_shared(std::size_t nbytes, int descriptor) {
  const int anonymous = descriptor < 0 ? MAP_ANONYMOUS : 0;
  void* memory = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | anonymous, descriptor, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for a store");
  return memory;
}

// Opens what another process makes.
int await_file(const std::filesystem::path& file) {
  constexpr std::chrono::seconds kLongest{60};
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (std::chrono::steady_clock::now() < deadline) {
    if (const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC); descriptor >= 0) return descriptor;
    ::usleep(500);
  }
  throw std::runtime_error("nobody made the store " + file.string());
}

}  // namespace

ForkStore::ForkStore() : store_{&Table::kTable, Table::make(map_shared(sizeof(Table), -1))} {}

ForkStore::ForkStore(const std::filesystem::path& file, bool makes_it) : store_{&Table::kTable, nullptr} {
  const std::filesystem::path aside = file.string() + ".partial";
  const int descriptor =
      makes_it ? ::open(aside.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : await_file(file);
  if (descriptor < 0 || (makes_it && ::ftruncate(descriptor, sizeof(Table)) != 0)) {
    throw std::runtime_error("the store " + aside.string() + " cannot be made");
  }
  store_.data = map_shared(sizeof(Table), descriptor);
  ::close(descriptor);
  if (!makes_it) return;
  Table::make(store_.data);
  std::filesystem::rename(aside, file);
  made_ = file;
}

ForkStore::~ForkStore() {
  ::munmap(store_.data, sizeof(Table));
  std::error_code ignored;  // gone with its folder
  if (!made_.empty()) std::filesystem::remove(made_, ignored);
}

}  // namespace cohort::test
