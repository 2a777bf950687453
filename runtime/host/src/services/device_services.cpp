// Services stream/1 and memory/1.
#include <cstring>
#include <string>

#include <cohort/api/host/stream.h>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "communicator/composed.hpp"
#include "host_object/guarded.hpp"
#include "rank/rank_state.hpp"
#include "services.hpp"

namespace cohort::host {
namespace {

cohort_status no_device(const cohort_host* host, const char* call, Device device) {
  const std::string text = std::string(call) + ": this rank works on no device " + std::to_string(device.index) +
                           " of type " + std::to_string(device.type) + "; take both from the bucket or the tensor";
  return host->fail(host, COHORT_NOT_FOUND, text.c_str());
}

cohort_status current(const cohort_host* host, int32_t type, int32_t index, cohort_stream* stream) noexcept {
  return guarded(host, [&] {
    const RankDevices& devices = rank_of(host).devices;
    if (!devices.has({type, index})) return no_device(host, "stream/1.current", {type, index});
    *stream = devices.current({type, index});
    return COHORT_OK;
  });
}

cohort_status alloc(const cohort_host* host, int32_t type, int32_t index, uint64_t nbytes, void** memory) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    if (!state.devices.has({type, index})) return no_device(host, "memory/1.alloc", {type, index});
    *memory = state.lent_memory.alloc(host, {type, index}, nbytes);
    return COHORT_OK;
  });
}

cohort_status release(const cohort_host* host, void* memory) noexcept {
  return guarded(host, [&] {
    if (memory) rank_of(host).lent_memory.release(host, memory);
    return COHORT_OK;
  });
}

/// Copies in the stream's order: on a device by `Copy`.
template <auto Copy>
cohort_status copy(const cohort_host* host, const char* call, void* to, const void* from, uint64_t nbytes,
                   const cohort_stream& stream) noexcept {
  return guarded(host, [&] {
    const RankDevices& devices = rank_of(host).devices;
    const Device device{stream.device_type, stream.device_index};
    if (!devices.has(device)) return no_device(host, call, device);
    check_stream(stream, call);
    if (nbytes == 0) return COHORT_OK;
    if (device.is_cpu()) {
      std::memcpy(to, from, nbytes);
    } else {
      (devices.port()->*Copy)(to, from, nbytes, stream);
    }
    return COHORT_OK;
  });
}

cohort_status read(const cohort_host* host, void* to, const void* from, uint64_t nbytes,
                   const cohort_stream* stream) noexcept {
  return copy<&DevicePort::copy_to_host>(host, "memory/1.read", to, from, nbytes, *stream);
}

cohort_status write(const cohort_host* host, void* to, const void* from, uint64_t nbytes,
                    const cohort_stream* stream) noexcept {
  return copy<&DevicePort::copy_from_host>(host, "memory/1.write", to, from, nbytes, *stream);
}

constexpr cohort_stream_1 kStream{current};
constexpr cohort_memory_1 kMemory{.alloc = alloc, .release = release, .read = read, .write = write};

}  // namespace

void check_stream(const cohort_stream& stream, const char* call) {
  if (stream.native || composed::is_cpu_memory(stream)) return;
  throw UserError(std::string(call) + " was given no stream for memory of a device; take it from stream/1.current");
}

const cohort_stream_1& stream_service() {
  return kStream;
}
const cohort_memory_1& memory_service() {
  return kMemory;
}

}  // namespace cohort::host
