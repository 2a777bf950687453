#include "shared_memory.hpp"

#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include <cohort/sdk/error.hpp>

namespace cohort::mpi {

SharedMemory::~SharedMemory() {
  for (const auto& [number, entry] : windows_) {
    if (!entry.is_freed) give_back(own_part(entry), entry.window.nbytes);
  }
}

void* SharedMemory::add(Window window) {
  const std::unique_lock lock(mutex_);
  return own_part(windows_.emplace(++last_number_, Entry{std::move(window), false}).first->second);
}

void* SharedMemory::add_ordinary(uint64_t nbytes) {
  std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(::operator new(nbytes, kLine, std::nothrow)));
  if (!memory) {
    throw sdk::Error(COHORT_RESOURCE_EXHAUSTED, "mpi alloc: there is no memory for " + std::to_string(nbytes) +
                                                    " bytes; start fewer ranks on this machine");
  }
  std::memset(memory.get(), 0, nbytes);
  const std::unique_lock lock(mutex_);
  return ordinary_.emplace_back(std::move(memory)).get();
}

void SharedMemory::free(const void* memory) {
  const std::unique_lock lock(mutex_);
  std::erase_if(ordinary_, [memory](const auto& one) { return one.get() == memory; });
  for (auto& [number, entry] : windows_) {
    if (entry.is_freed || own_part(entry) != memory) continue;
    entry.is_freed = true;
    give_back(own_part(entry), entry.window.nbytes);
  }
}

std::vector<int64_t> SharedMemory::freed() const {
  const std::shared_lock lock(mutex_);
  std::vector<int64_t> marks;
  for (const auto& [number, entry] : windows_) marks.push_back(entry.is_freed ? 1 : 0);
  return marks;
}

std::vector<MPI_Win> SharedMemory::remove(const std::vector<int64_t>& marks) {
  const std::unique_lock lock(mutex_);
  std::vector<MPI_Win> handles;
  auto mark = marks.begin();
  std::erase_if(windows_, [&](const auto& numbered) {
    if (*mark++ == 0) return false;
    handles.push_back(numbered.second.window.handle);
    return true;
  });
  return handles;
}

Place SharedMemory::find(const void* memory, uint64_t nbytes) const {
  const auto* begin = static_cast<const std::byte*>(memory);
  const std::less_equal<> not_after;  // pointers into different objects
  const std::shared_lock lock(mutex_);
  for (const auto& [number, entry] : windows_) {
    const std::byte* part = own_part(entry);
    if (entry.is_freed || !not_after(part, begin) || !not_after(begin, part + entry.window.nbytes)) continue;
    const auto offset = static_cast<uint64_t>(begin - part);
    if (nbytes <= entry.window.nbytes - offset) return {number, offset};
  }
  return {};
}

std::byte* SharedMemory::resolve(int rank, const Place& place, uint64_t nbytes) const {
  const std::shared_lock lock(mutex_);
  const auto found = windows_.find(place.window);
  if (found == windows_.end() || place.offset > found->second.window.nbytes ||
      nbytes > found->second.window.nbytes - place.offset) {
    throw sdk::Error(COHORT_INTERNAL, "rank " + std::to_string(rank) + " names a place outside its shared memory");
  }
  return found->second.window.parts[static_cast<std::size_t>(rank)] + place.offset;
}

}  // namespace cohort::mpi
