// The C interface of the driver, but for events (events.cpp) and graphs (graph.cpp).
#include "fakedrv.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "guarded.hpp"

namespace {

using fakedrv::Driver;
using fakedrv::guarded;
using fakedrv::Item;
using fakedrv::Stream;

thread_local std::string last_error;
thread_local std::array<Stream*, FAKEDRV_DEVICES> current_streams{};
thread_local int current_device = 0;

void check_device(int device) {
  if (device < 0 || device >= FAKEDRV_DEVICES) {
    throw std::runtime_error("there is no device " + std::to_string(device));
  }
}

fakedrv::DeviceMemory::Blocks::iterator block_of(Driver& driver, const void* memory) {
  const int device = driver.device_of(memory);
  if (device < 0) throw std::runtime_error("this is no memory of a device");
  auto& blocks = driver.memories()[static_cast<size_t>(device)];
  const auto block = blocks.find(memory);
  if (block == blocks.end() || block->second.is_free) throw std::runtime_error("this memory is not allocated");
  return block;
}

Item fill_item(Driver& driver, const char* name, void* memory, int byte, uint64_t nbytes) {
  void* const place = driver.contents(memory);
  return {.name = name, .run = [=] {
            std::memset(place, byte, nbytes);
            return 0;
          }};
}

// Both places can be reached while the host does something else.
void copy_later(Driver& driver, Driver::Lock& lock, Stream& stream, void* to, const void* from, uint64_t nbytes) {
  const bool is_known_from = driver.device_of(from) >= 0 || driver.is_pinned(from);
  void* const target = driver.contents(to);
  const void* const source = driver.contents(from);
  std::vector<fakedrv_access> accesses;
  if (is_known_from) accesses.push_back({from, nbytes, 0, 0});
  if (driver.device_of(to) >= 0 || driver.is_pinned(to)) accesses.push_back({to, nbytes, 1, 0});
  const auto launch = [&](std::function<int()> run) {
    driver.launch(lock, stream, {.name = "copy", .run = std::move(run), .crosses_devices = true}, accesses);
  };
  if (is_known_from) {
    return launch([=] {
      std::memcpy(target, source, nbytes);
      return 0;
    });
  }
  const auto* const bytes = static_cast<const char*>(from);
  launch([target, kept = std::vector<char>(bytes, bytes + nbytes)] {
    std::memcpy(target, kept.data(), kept.size());
    return 0;
  });
}

// Memory that a graph has taken while the stream captures is freed in each replay, all other memory now.
void fill_freed(Driver& driver, Driver::Lock& lock, const fakedrv::DeviceMemory::Block& block, std::byte* first,
                Stream& last) {
  Item item = fill_item(driver, "free", first, 0xff, block.nbytes);
  const std::vector<fakedrv_access> accesses{{first, block.nbytes, 1, 0}};
  if (block.pool && last.capture.graph == block.pool) {
    for (const Stream* const user : block.users) last.capture.clock.join(user->capture.clock);
    return driver.launch(lock, last, std::move(item), accesses);
  }
  for (Stream* const user : block.users) driver.wait_on_stream(lock, last, *user, user->issued, user->clock);
  driver.enqueue(lock, last, std::move(item), accesses);
}

void free_block(Driver& driver, Driver::Lock& lock, fakedrv::DeviceMemory::Blocks::iterator block, Stream& last) {
  auto& blocks = driver.memories()[static_cast<size_t>(driver.device_of(block->first))];
  try {
    fill_freed(driver, lock, block->second, block->first, last);
  } catch (...) {
    blocks.give_back(block, &last);
    throw;
  }
  blocks.give_back(block, &last);
}

void wait(Driver& driver, Driver::Lock& lock, Stream& stream) {
  driver.refuse_in_capture(stream, "a wait of the host");
  ++driver.num_waits;
  const fakedrv::Clock clock = stream.clock;
  driver.run_to(lock, stream, stream.issued);
  driver.host_waited(clock);
}

}  // namespace

extern "C" {

const char* fakedrv_error(void) {
  return last_error.c_str();
}

int fakedrv_fail(const char* text) {
  last_error = text;
  return 1;
}

void fakedrv_set_eager(int is_eager) {
  guarded([&](Driver& driver, auto&) { driver.is_eager = is_eager != 0; });
}

void fakedrv_set_race_check(int is_on) {
  guarded([&](Driver& driver, auto&) { driver.checks_races = is_on != 0; });
}

uint64_t fakedrv_num_races(void) {
  uint64_t count = 0;
  guarded([&](Driver& driver, auto&) { count = driver.num_races; });
  return count;
}

uint64_t fakedrv_num_waits(void) {
  uint64_t count = 0;
  guarded([&](Driver& driver, auto&) { count = driver.num_waits; });
  return count;
}

uint64_t fakedrv_num_events(void) {
  uint64_t count = 0;
  guarded([&](Driver& driver, auto&) { count = driver.num_events; });
  return count;
}

int fakedrv_alloc(fakedrv_stream* stream, uint64_t nbytes, void** memory) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    auto& blocks = driver.memories()[static_cast<size_t>(stream->device)];
    const fakedrv_graph* const pool = stream->capture.graph;
    try {
      *memory = blocks.take(stream, nbytes, pool)->first;
    } catch (const std::bad_alloc&) {
      if (pool) throw;
      driver.wait_for_all(lock);
      blocks.join_free();
      *memory = blocks.take(stream, nbytes, pool)->first;
    }
  });
}

int fakedrv_used_on(const void* memory, fakedrv_stream* stream) {
  return guarded([&](Driver& driver, auto&) { block_of(driver, memory)->second.users.insert(stream); });
}

int fakedrv_free(void* memory, fakedrv_stream* stream_or_null) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    const auto block = block_of(driver, memory);
    free_block(driver, lock, block, stream_or_null ? *stream_or_null : *block->second.owner);
  });
}

void fakedrv_release(void* memory) {
  guarded([&](Driver& driver, Driver::Lock& lock) {
    const auto block = block_of(driver, memory);
    Stream& owner = *block->second.owner;
    try {
      free_block(driver, lock, block, owner);
    } catch (const std::exception& error) {
      if (owner.failure.empty()) owner.failure = error.what();
    }
  });
}

int fakedrv_device_of(const void* memory) {
  return Driver::get().device_of(memory);
}

void* fakedrv_contents(const void* memory) {
  return Driver::get().contents(memory);
}

uint64_t fakedrv_allocated(int device) {
  uint64_t nbytes = 0;
  guarded([&](Driver& driver, auto&) { nbytes = driver.memories().at(static_cast<size_t>(device)).allocated(); });
  return nbytes;
}

uint64_t fakedrv_capacity(int device) {
  uint64_t nbytes = 0;
  guarded([&](Driver& driver, auto&) { nbytes = driver.memories().at(static_cast<size_t>(device)).size(); });
  return nbytes;
}

int fakedrv_alloc_pinned(uint64_t nbytes, void** memory) {
  return guarded([&](Driver& driver, auto&) {
    void* const made = std::malloc(nbytes > 0 ? nbytes : 1);
    if (!made) throw std::bad_alloc();
    std::memset(made, 0xee, nbytes);
    driver.pinned()[static_cast<std::byte*>(made)] = nbytes;
    *memory = made;
  });
}

int fakedrv_free_pinned(void* memory) {
  return guarded([&](Driver& driver, auto&) {
    if (driver.pinned().erase(static_cast<std::byte*>(memory)) == 0) {
      throw std::runtime_error("this is no pinned memory");
    }
    std::free(memory);
  });
}

int fakedrv_is_pinned(const void* memory) {
  int is_pinned = 0;
  guarded([&](Driver& driver, auto&) { is_pinned = driver.is_pinned(memory) ? 1 : 0; });
  return is_pinned;
}

int fakedrv_current_device(void) {
  return current_device;
}

int fakedrv_set_device(int device) {
  return guarded([&](auto&, auto&) {
    check_device(device);
    current_device = device;
  });
}

int fakedrv_create_stream(int device, fakedrv_stream** stream) {
  return guarded([&](Driver& driver, auto&) {
    check_device(device);
    *stream = driver.make_stream(device);
  });
}

int fakedrv_destroy_stream(fakedrv_stream* stream) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    if (stream == driver.default_stream(stream->device)) throw std::runtime_error("the default stream stays");
    wait(driver, lock, *stream);
    stream->is_in_use = false;
  });
}

fakedrv_stream* fakedrv_default_stream(int device) {
  return Driver::get().default_stream(device);
}

int fakedrv_stream_device(const fakedrv_stream* stream) {
  return stream->device;
}

int fakedrv_stream_number(const fakedrv_stream* stream) {
  return static_cast<int>(stream->number);
}

fakedrv_stream* fakedrv_find_stream(int number) {
  fakedrv_stream* found = nullptr;
  guarded([&](Driver& driver, auto&) { found = driver.find_stream(number); });
  return found;
}

fakedrv_stream* fakedrv_current_stream(int device) {
  Stream* const current = current_streams[static_cast<size_t>(device)];
  return current ? current : fakedrv_default_stream(device);
}

fakedrv_stream* fakedrv_exchange_stream(fakedrv_stream* stream) {
  fakedrv_stream* const before = fakedrv_current_stream(stream->device);
  current_streams[static_cast<size_t>(stream->device)] = stream;
  return before;
}

int fakedrv_launch(fakedrv_stream* stream, const char* name, const fakedrv_access* accesses, uint64_t num_accesses,
                   fakedrv_work work, void* arg, fakedrv_drop drop) {
  const auto nothing = [](void*) {};
  const std::shared_ptr<void> owned(arg, drop ? drop : nothing);
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    driver.launch(lock, *stream, {.name = name, .run = [work, owned] { return work(owned.get()); }},
                  {accesses, accesses + num_accesses});
  });
}

int fakedrv_call(fakedrv_stream* stream, const char* name, const fakedrv_access* accesses, uint64_t num_accesses,
                 fakedrv_work work, void* arg) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    driver.refuse_in_capture(*stream, name);
    driver.launch(lock, *stream, {.name = name, .run = [work, arg] { return work(arg); }},
                  {accesses, accesses + num_accesses});
    driver.run_to(lock, *stream, stream->issued);
  });
}

int fakedrv_copy(fakedrv_stream* stream, void* to, const void* from, uint64_t nbytes) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    if (nbytes == 0) return;
    const auto is_ordinary = [&](const void* memory) {
      return driver.device_of(memory) < 0 && !driver.is_pinned(memory);
    };
    if (is_ordinary(from) || is_ordinary(to))
      driver.refuse_in_capture(*stream, "a copy with ordinary memory of the host");
    copy_later(driver, lock, *stream, to, from, nbytes);
    if (is_ordinary(to)) wait(driver, lock, *stream);
  });
}

int fakedrv_fill(fakedrv_stream* stream, void* memory, int byte, uint64_t nbytes) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    if (nbytes > 0)
      driver.launch(lock, *stream, fill_item(driver, "fill", memory, byte, nbytes), {{memory, nbytes, 1, 0}});
  });
}

int fakedrv_wait(fakedrv_stream* stream) {
  return guarded([&](Driver& driver, Driver::Lock& lock) { wait(driver, lock, *stream); });
}

int fakedrv_poll(fakedrv_stream* stream, int* is_done) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    driver.refuse_in_capture(*stream, "a poll of the host");
    const fakedrv::Clock clock = stream->clock;
    *is_done = driver.run_one(lock, *stream, stream->issued) ? 1 : 0;
    if (*is_done) driver.host_waited(clock);
  });
}

int fakedrv_wait_for_device(int device) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    check_device(device);
    for (size_t i = 0; i < driver.streams().size(); ++i) {  // streams may be added while the lock is open
      const Stream& stream = driver.streams()[i];
      if (stream.device == device) wait(driver, lock, const_cast<Stream&>(stream));
    }
  });
}

}  // extern "C"
