#include <gtest/gtest.h>

#include <string>
#include <thread>

#include <cohort/host/error.hpp>
#include <cohort/toy_host/memory_store.hpp>

namespace cohort::host {
namespace {

constexpr std::chrono::seconds kAbiWait{120};

TEST(PrefixedStore, KeepsItsKeysApartFromOthers) {
  toy::MemoryStore memory;
  AbiStore abi(memory);
  PrefixedStore left(abi.get(), "left/"), right(abi.get(), "right/");
  left.set("key", "1");
  right.set("key", "2");
  EXPECT_EQ(left.get("key", kAbiWait), "1");
  EXPECT_EQ(right.get("key", kAbiWait), "2");
  EXPECT_EQ(left.count(), 2u);
  left.remove("key");
  EXPECT_EQ(left.try_get("key"), std::nullopt);
}

TEST(PrefixedStore, ReadsValuesLongerThanItsUsualBuffer) {
  toy::MemoryStore memory;
  AbiStore abi(memory);
  PrefixedStore store(abi.get(), "");
  const std::string value(100'000, 'x');
  store.set("long", value);
  EXPECT_EQ(store.get("long", kAbiWait), value);
  EXPECT_EQ(store.try_get("long"), value);
}

TEST(PrefixedStore, WaitsForAValueThatComesLater) {
  toy::MemoryStore memory;
  AbiStore abi(memory);
  PrefixedStore store(abi.get(), "p/");
  std::thread later([&] { store.set("key", "now"); });
  EXPECT_EQ(store.get("key", kAbiWait), "now");
  later.join();
}

TEST(PrefixedStore, GivesNothingAtTheDeadline) {
  toy::MemoryStore memory;
  AbiStore abi(memory);
  EXPECT_EQ(PrefixedStore(abi.get(), "").get("never", std::chrono::milliseconds(10)), std::nullopt);
}

TEST(AbiStore, TellsTheLengthWhereTheBufferIsTooSmall) {
  toy::MemoryStore memory;
  memory.set("key", "12345");
  AbiStore abi(memory);
  cohort_store* const store = abi.get();
  char buffer[2];
  uint64_t nbytes = 0;
  EXPECT_EQ(store->vt->try_get(store, "key", buffer, sizeof buffer, &nbytes), COHORT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(nbytes, 5u);
}

TEST(AbiStore, WaitsForSeveralKeysWithinOneDeadline) {
  toy::MemoryStore memory;
  memory.set("a", "");
  AbiStore abi(memory);
  cohort_store* const store = abi.get();
  const char* keys[] = {"a", "b"};
  EXPECT_EQ(store->vt->wait(store, keys, 2, 1'000'000), COHORT_DEADLINE_EXCEEDED);
  memory.set("b", "");
  EXPECT_EQ(store->vt->wait(store, keys, 2, 1'000'000), COHORT_OK);
}

TEST(AbiStore, AddsFromAnyRank) {
  toy::MemoryStore memory;
  AbiStore abi(memory);
  int64_t sum = 0;
  EXPECT_EQ(abi.get()->vt->add(abi.get(), "n", 2, &sum), COHORT_OK);
  EXPECT_EQ(abi.get()->vt->add(abi.get(), "n", -5, &sum), COHORT_OK);
  EXPECT_EQ(sum, -3);
}

}  // namespace
}  // namespace cohort::host
