#include "memory.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "fakedrv.h"

namespace fakedrv {
namespace {

// The handler reads these alone, because it can run at any moment.
struct Range {
  const std::byte* first;
  uint64_t nbytes;
} ranges[FAKEDRV_DEVICES];
struct sigaction action_before;

char* put(char* to, const char* text) {
  while (*text) *to++ = *text++;
  return to;
}

char* put_hex(char* to, uint64_t value) {
  char digits[16];
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[value % 16];
    value /= 16;
  } while (value != 0);
  while (count > 0) *to++ = digits[--count];
  return to;
}

void name_device(int, siginfo_t* info, void*) {
  const auto* const address = static_cast<const std::byte*>(info->si_addr);
  for (int device = 0; device < FAKEDRV_DEVICES; ++device) {
    const auto [first, nbytes] = ranges[device];
    if (address < first || address >= first + nbytes) continue;
    char text[128];
    char* end = put(text, "fake device: host code touched memory of device ");
    *end++ = static_cast<char>('0' + device);
    end = put_hex(put(end, " at +0x"), static_cast<uint64_t>(address - first));
    *end++ = '\n';
    static_cast<void>(!::write(STDERR_FILENO, text, static_cast<size_t>(end - text)));
  }
  ::sigaction(SIGSEGV, &action_before, nullptr);  // the instruction runs again, and ends as it would have
}

uint64_t in_blocks(uint64_t nbytes) {
  return std::max<uint64_t>(1, (nbytes + kBlockBytes - 1) / kBlockBytes) * kBlockBytes;
}

}  // namespace

DeviceMemory::DeviceMemory(uint64_t nbytes) : size_(nbytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const both = ::mmap(nullptr, 2 * size_, PROT_NONE, flags, -1, 0);
  if (both == MAP_FAILED) throw std::bad_alloc();
  first_ = static_cast<std::byte*>(both);
  if (::mprotect(first_ + size_, size_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
}

DeviceMemory::Blocks::iterator DeviceMemory::take(Stream* owner, uint64_t nbytes, const fakedrv_graph* pool) {
  const uint64_t wanted = in_blocks(nbytes);
  auto& free = free_[{owner, pool}];
  const auto fitting = free.lower_bound(wanted);
  auto block = blocks_.end();
  if (fitting != free.end() && fitting->first <= 2 * wanted) {  // a much larger one is kept for what needs it
    const auto newest = std::prev(free.upper_bound(fitting->first));
    block = blocks_.find(newest->second);
    free.erase(newest);
    block->second.is_free = false;
  } else {
    block = take_joined(owner, wanted, pool);
  }
  if (block == blocks_.end()) {
    if (wanted > size_ - used_) throw std::bad_alloc();
    block = blocks_.emplace(first_ + used_, Block{wanted, owner, {}, pool}).first;
    used_ += wanted;
    std::memset(contents(block->first), 0xff, wanted);
  }
  allocated_ += block->second.nbytes;
  return block;
}

// Gives what the block has too much of to another one.
DeviceMemory::Blocks::iterator DeviceMemory::take_joined(Stream* owner, uint64_t nbytes, const fakedrv_graph* pool) {
  auto& free = free_[{nullptr, nullptr}];
  const auto fitting = free.lower_bound(nbytes);
  if (fitting == free.end()) return blocks_.end();
  const auto block = blocks_.find(fitting->second);
  free.erase(fitting);
  const uint64_t rest = block->second.nbytes - nbytes;
  block->second = Block{nbytes, owner, {}, pool};
  if (rest > 0) {
    blocks_.emplace(block->first + nbytes, Block{rest, nullptr, {}, nullptr, true});
    free.emplace(rest, block->first + nbytes);
  }
  return block;
}

void DeviceMemory::join_free() {
  const auto can_join = [](const Block& block) { return block.is_free && !block.pool; };
  std::erase_if(free_, [](const auto& entry) { return entry.first.second == nullptr; });
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (!can_join(block->second)) continue;
    for (auto next = std::next(block); next != blocks_.end() && can_join(next->second);) {
      block->second.nbytes += next->second.nbytes;
      next = blocks_.erase(next);
    }
    block->second.owner = nullptr;
    free_[{nullptr, nullptr}].emplace(block->second.nbytes, block->first);
  }
}

void DeviceMemory::give_back(Blocks::iterator block, Stream* owner) {
  block->second.is_free = true;
  block->second.owner = owner;
  block->second.users.clear();
  free_[{owner, block->second.pool}].emplace(block->second.nbytes, block->first);
  allocated_ -= block->second.nbytes;
}

void DeviceMemory::dissolve(const fakedrv_graph* pool) {
  for (auto& [first, block] : blocks_) {
    if (block.pool != pool) continue;
    block.pool = nullptr;
    if (block.is_free) free_[{block.owner, nullptr}].emplace(block.nbytes, first);
  }
  std::erase_if(free_, [&](const auto& entry) { return entry.first.second == pool; });
}

DeviceMemory::Blocks::iterator DeviceMemory::find(const void* memory) {
  auto* const address = static_cast<std::byte*>(const_cast<void*>(memory));
  auto block = blocks_.upper_bound(address);
  if (block == blocks_.begin()) return blocks_.end();
  --block;
  return address < block->first + block->second.nbytes ? block : blocks_.end();
}

void name_faults(const std::vector<std::pair<const void*, uint64_t>>& devices) {
  for (size_t device = 0; device < devices.size(); ++device) {
    ranges[device] = {static_cast<const std::byte*>(devices[device].first), devices[device].second};
  }
  struct sigaction action {};
  action.sa_sigaction = name_device;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, &action_before);
}

}  // namespace fakedrv
