#include "driver.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace fakedrv {
namespace {

constexpr size_t kLongestQueue = 4096;

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// With one call of write, so that the lines of several processes stay whole.
void report() {
  const char* const file = std::getenv("FAKE_DEVICE_REPORT");
  if (!file || !*file) return;
  const Driver& driver = Driver::get();
  std::ofstream(file, std::ios::app) << "waits=" + std::to_string(driver.num_waits) +
                                            " races=" + std::to_string(driver.num_races) + "\n";
}

}  // namespace

Driver& Driver::get() {
  static Driver& driver = *new Driver;  // outlives everything that may still give memory back
  return driver;
}

Driver::Driver()
    : is_eager(number_in("FAKE_DEVICE_EAGER", 0) != 0), checks_races(number_in("FAKE_DEVICE_RACE_CHECK", 1) != 0) {
  const uint64_t nbytes = number_in("FAKE_DEVICE_MIB", 4096) << 20;
  std::vector<std::pair<const void*, uint64_t>> ranges;
  for (int device = 0; device < FAKEDRV_DEVICES; ++device) {
    memories_.emplace_back(nbytes);
    ranges.emplace_back(memories_.back().first(), nbytes);
    default_streams_.push_back(make_stream(device));
  }
  name_faults(ranges);
  std::atexit(report);
}

int Driver::device_of(const void* memory) const {
  for (size_t device = 0; device < memories_.size(); ++device) {
    if (memories_[device].has(memory)) return static_cast<int>(device);
  }
  return -1;
}

void* Driver::contents(const void* memory) const {
  const int device = device_of(memory);
  return device < 0 ? const_cast<void*>(memory) : memories_[static_cast<size_t>(device)].contents(memory);
}

bool Driver::is_pinned(const void* memory) const {
  auto* const address = static_cast<std::byte*>(const_cast<void*>(memory));
  const auto after = pinned_.upper_bound(address);
  if (after == pinned_.begin()) return false;
  const auto& [first, nbytes] = *std::prev(after);
  return address < first + nbytes;
}

Stream* Driver::make_stream(int device) {
  for (Stream& stream : streams_) {
    if (stream.is_in_use || stream.device != device) continue;
    stream.is_in_use = true;
    return &stream;
  }
  return &streams_.emplace_back(Stream{.device = device, .number = streams_.size()});
}

Stream* Driver::find_stream(int number) {
  const auto index = static_cast<size_t>(number);
  return number >= 0 && index < streams_.size() && streams_[index].is_in_use ? &streams_[index] : nullptr;
}

void Driver::take_place(Stream& stream) {
  stream.clock.join(host_);
  stream.clock.advance(stream.number, ++stream.issued);
}

void Driver::check_memory(const Stream& stream, const Item& item, const fakedrv_access& access) {
  const int device = device_of(access.memory);
  const std::string what = item.name + " on stream " + std::to_string(stream.number);
  if (device < 0) {
    if (!is_pinned(access.memory)) throw std::runtime_error(what + " was given memory of the host that is not pinned");
    return;
  }
  DeviceMemory& memory = memories_[static_cast<size_t>(device)];
  const auto block = memory.find(access.memory);
  const bool is_own = block != memory.end() && item.graph && block->second.pool == item.graph;  // in use in each replay
  if (block == memory.end() || (block->second.is_free && !is_own)) {
    throw std::runtime_error(what + " was given memory of device " + std::to_string(device) + " that is not allocated");
  }
  const auto* const first = static_cast<const std::byte*>(access.memory);
  if (first + access.nbytes > block->first + block->second.nbytes) {
    throw std::runtime_error(what + " goes beyond the end of its memory");
  }
  if (device != stream.device && !item.crosses_devices) {
    throw std::runtime_error(what + ", of device " + std::to_string(stream.device) + ", was given memory of device " +
                             std::to_string(device));
  }
}

// A launch that is refused leaves no trace.
void Driver::check(const Stream& stream, const Item& item, std::vector<fakedrv_access> accesses, Races& races,
                   const Clock& clock, uint64_t number) {
  std::erase_if(accesses, [](const fakedrv_access& access) { return access.nbytes == 0; });
  for (const fakedrv_access& access : accesses) check_memory(stream, item, access);
  if (!checks_races) return;
  // Reads come first, because a work that reads and writes the same bytes has written them.
  std::stable_partition(accesses.begin(), accesses.end(), [](const auto& access) { return access.is_write == 0; });
  const auto noted = [&](const fakedrv_access& access) {
    return Races::Access{stream.number, number, item.name, access.is_write != 0};
  };
  for (const fakedrv_access& access : accesses) {
    const std::string race = races.find(access.memory, access.nbytes, noted(access), clock);
    if (race.empty()) continue;
    ++num_races;
    throw std::runtime_error(race);
  }
  for (const fakedrv_access& access : accesses) races.add(access.memory, access.nbytes, noted(access));
}

void Driver::launch(Lock& lock, Stream& stream, Item item, const std::vector<fakedrv_access>& accesses) {
  if (stream.capture.graph) return record(stream, std::move(item), accesses);
  enqueue(lock, stream, std::move(item), accesses);
}

void Driver::enqueue(Lock& lock, Stream& stream, Item item, const std::vector<fakedrv_access>& accesses) {
  stream.clock.join(host_);
  check(stream, item, accesses, races_, stream.clock, stream.issued + 1);
  races_.forget(host_);
  take_place(stream);
  add_to_queue(lock, stream, std::move(item));
}

void Driver::wait_on_stream(Lock& lock, Stream& stream, Stream& other, uint64_t place, const Clock& clock) {
  stream.clock.join(clock);
  if (&other == &stream || other.done >= place) return;
  take_place(stream);
  add_to_queue(lock, stream, {.name = "wait", .other = &other, .place = place});
}

void Driver::add_to_queue(Lock& lock, Stream& stream, Item item) {
  stream.queue.push_back(std::move(item));
  if (is_eager) return advance(lock, stream, stream.issued);
  if (stream.queue.size() > kLongestQueue) advance(lock, stream, stream.done + 1);
}

void Driver::run_next(Lock& lock, Stream& stream) {
  Item item = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.is_running = true;
  if (item.other) {
    advance(lock, *item.other, item.place);
  } else {
    lock.unlock();
    const int status = item.run();
    const std::string text = status == 0 ? "" : item.name + ": " + fakedrv_error();
    item.run = {};  // drops its argument
    lock.lock();
    if (stream.failure.empty()) stream.failure = text;
  }
  stream.is_running = false;
  ++stream.done;
  changed_.notify_all();
}

void Driver::advance(Lock& lock, Stream& stream, uint64_t place) {
  while (stream.done < place) {
    if (stream.is_running) {
      changed_.wait(lock);
    } else {
      run_next(lock, stream);
    }
  }
}

void Driver::run_to(Lock& lock, Stream& stream, uint64_t place) {
  advance(lock, stream, place);
  if (!stream.failure.empty()) throw std::runtime_error(std::exchange(stream.failure, ""));
}

void Driver::wait_for_all(Lock& lock) {
  for (Stream& stream : streams_) {
    const Clock clock = stream.clock;
    advance(lock, stream, stream.issued);
    host_waited(clock);
  }
}

bool Driver::run_one(Lock& lock, Stream& stream, uint64_t place) {
  if (stream.done < place && !stream.is_running) run_next(lock, stream);
  if (!stream.failure.empty()) throw std::runtime_error(std::exchange(stream.failure, ""));
  return stream.done >= place;
}

}  // namespace fakedrv
