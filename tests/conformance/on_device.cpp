#include "on_device.hpp"

#include <algorithm>
#include <stdexcept>

namespace cohort::conformance {
namespace {

constexpr uint64_t kGuard = 64;
constexpr std::byte kMark{0xa5};

const std::byte* end_of(const void* memory, uint64_t nbytes) {
  return static_cast<const std::byte*>(memory) + nbytes;
}

std::byte* aligned(std::byte* memory) {
  return memory + (kGuard - reinterpret_cast<uintptr_t>(memory) % kGuard) % kGuard;
}

uint64_t misalignment(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % 16;
}

}  // namespace

void* DeviceMemories::add(Device& device, void* memory, uint64_t nbytes) {
  Twin twin{std::make_unique<std::byte[]>(nbytes + kGuard), static_cast<std::byte*>(memory), nbytes};
  std::byte* const host_memory = aligned(twin.storage.get()) + reinterpret_cast<uintptr_t>(memory) % kGuard;
  const cohort_stream stream = device.make_stream();
  device.copy(host_memory, memory, nbytes, stream);
  device.destroy_stream(stream);
  const std::lock_guard lock(mutex_);
  twins_[host_memory] = std::move(twin);
  return host_memory;
}

void* DeviceMemories::remove(void* host_memory) {
  const std::lock_guard lock(mutex_);
  const auto found = twins_.find(static_cast<std::byte*>(host_memory));
  void* const memory = found->second.device;
  twins_.erase(found);
  return memory;
}

std::byte* DeviceMemories::find(const void* host_byte) {
  const std::lock_guard lock(mutex_);
  const auto* const byte = static_cast<const std::byte*>(host_byte);
  const auto after = twins_.upper_bound(byte);
  if (after == twins_.begin()) return nullptr;
  const auto& [first, twin] = *std::prev(after);
  return byte < first + twin.nbytes ? twin.device + (byte - first) : nullptr;
}

std::byte* OnDevice::place(const void* memory, uint64_t nbytes) {
  const auto* const first = static_cast<const std::byte*>(memory);
  for (const Range& range : ranges_) {
    if (first >= range.host && first + nbytes <= range.host + range.nbytes) return range.device + (first - range.host);
  }
  Range range{first, nbytes, memories_.find(memory), nullptr};
  if (!range.device) {
    const std::vector<std::byte> marks(nbytes + 3 * kGuard, kMark);
    range.block = static_cast<std::byte*>(device_.alloc(marks.size(), stream_));
    device_.copy(range.block, marks.data(), marks.size(), stream_);
    range.device = range.block + kGuard + misalignment(memory);
  }
  device_.copy(range.device, first, nbytes, stream_);
  ranges_.push_back(range);
  return range.device;
}

void OnDevice::take(const void*& input, uint64_t input_bytes, void*& output, uint64_t output_bytes) {
  const auto* const in = static_cast<const std::byte*>(input);
  const auto* const out = static_cast<const std::byte*>(output);
  const bool overlap = in && out && in < end_of(out, std::max<uint64_t>(output_bytes, 1)) &&
                       out < end_of(in, std::max<uint64_t>(input_bytes, 1));
  if (overlap) {  // one range first, in which both are found
    const std::byte* const first = std::min(in, out);
    place(first, static_cast<uint64_t>(std::max(end_of(in, input_bytes), end_of(out, output_bytes)) - first));
  }
  if (in) input = place(in, input_bytes);
  if (out) output = place(out, output_bytes);
}

void OnDevice::require_guards(const Range& range) {
  std::vector<std::byte> bytes(range.nbytes + 3 * kGuard);
  device_.copy(bytes.data(), range.block, bytes.size(), stream_);
  const auto first = bytes.begin() + (range.device - range.block);
  const auto is_mark = [](std::byte byte) { return byte == kMark; };
  if (std::all_of(bytes.begin(), first, is_mark) &&
      std::all_of(first + static_cast<std::ptrdiff_t>(range.nbytes), bytes.end(), is_mark)) {
    return;
  }
  throw std::runtime_error("an operation wrote outside its memory on the device");
}

void OnDevice::give_back() {
  for (const Range& range : ranges_) {
    device_.copy(const_cast<std::byte*>(range.host), range.device, range.nbytes, stream_);
    if (range.block) require_guards(range);
  }
}

OnDevice::~OnDevice() {
  for (const Range& range : ranges_) {
    if (range.block) device_.release(range.block, stream_);
  }
}

}  // namespace cohort::conformance
