#include "torch_devices.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

// CUDA's default stream has the handle null, and cudaStreamLegacy, which is 1, names the same stream. A null handle
// means "no stream" to plugins.
void* const kLegacyStream = reinterpret_cast<void*>(uintptr_t{1});

class Event final : public host::DeviceEvent {
 public:
  explicit Event(const c10::Stream& stream) : event_(stream.device_type()) { event_.record(stream); }
  bool is_done() override { return event_.query(); }
  void block(const c10::Stream& stream) { event_.block(stream); }

 private:
  c10::Event event_;
};

at::Tensor bytes_at(void* memory, uint64_t nbytes, c10::Device device) {
  return at::from_blob(memory, {static_cast<int64_t>(nbytes)}, at::TensorOptions(at::kByte).device(device));
}

c10::DataPtr allocate(c10::DeviceType type, uint64_t nbytes) {
  try {
    return c10::GetAllocator(type)->allocate(nbytes);
  } catch (const c10::OutOfMemoryError& error) {
    throw UserError("no memory for buckets: " + host::on_one_line(error.what_without_backtrace()) +
                    "; choose a smaller batch, or --strategy=sharded, which divides the optimizer's state");
  }
}

}  // namespace

std::string beside_libtorch(const std::string& library) {
  Dl_info info{};
  using Allocators = c10::Allocator* (*)(const c10::DeviceType&);
  const Allocators function = &c10::GetAllocator;
  if (library.find('/') != std::string::npos || ::dladdr(reinterpret_cast<const void*>(function), &info) == 0) {
    return library;
  }
  std::error_code error;
  const auto beside = std::filesystem::path(info.dli_fname).parent_path() / library;
  return std::filesystem::exists(beside, error) ? beside.string() : library;
}

c10::DeviceType open_device_type(const host::TorchDeviceType& type) {
  if (!type.library.empty() && ::dlopen(beside_libtorch(type.library).c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    throw UserError("LibTorch's library for '" + type.name + "' devices cannot be opened: " + ::dlerror() +
                    "; install a LibTorch that has it, or choose --accelerator=cpu");
  }
  if (type.device_type == COHORT_DEVICE_CPU) return c10::kCPU;
  try {
    const c10::DeviceType found = c10::Device(type.name).type();
    c10::impl::getDeviceGuardImpl(found);  // throws if nothing is registered for the type
    return found;
  } catch (const c10::Error& error) {
    throw UserError("this LibTorch has no '" + type.name + "' devices (" + error.what_without_backtrace() +
                    "); install one that has, or choose --accelerator=cpu");
  }
}

TorchDevices::TorchDevices(std::span<const c10::Device> devices, int32_t device_type) : guard_(devices.front().type()) {
  const int count = guard_.deviceCount();
  for (const c10::Device device : devices) {
    if (device.index() >= count) {
      throw UserError("LibTorch finds " + std::to_string(count) + " '" + c10::DeviceTypeName(device.type(), true) +
                      "' devices where the accelerator has more: there is no " + device.str() +
                      "; choose fewer --devices");
    }
    devices_.push_back({device_type, device.index()});
  }
  guard_.setDevice(devices.front());
}

// Tensors of the program may lie in what was not released: it stays until the process ends.
TorchDevices::~TorchDevices() {
  for (auto& [memory, owner] : memory_) owner.release_context();
}

c10::Device TorchDevices::torch_device(host::Device device) const {
  return {guard_.type(), static_cast<c10::DeviceIndex>(device.index)};
}

cohort_stream TorchDevices::give_out(const c10::Stream& stream) {
  void* const handle = guard_.getStreamNativeHandle(stream);
  const cohort_stream given{handle ? handle : kLegacyStream, devices_.front().type, stream.device_index()};
  const std::lock_guard lock(mutex_);
  streams_.try_emplace({given.device_index, given.native}, stream);
  return given;
}

c10::Stream TorchDevices::torch_stream(const cohort_stream& stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find({stream.device_index, stream.native});
  if (found != streams_.end()) return found->second;
  throw UserError("a stream of device " + std::to_string(stream.device_index) +
                  " is none that stream/1.current or a lane has given; use one of these");
}

cohort_stream TorchDevices::current(host::Device device) {
  return give_out(guard_.getStream(torch_device(device)));
}

// A new thread begins on LibTorch's device 0, which may be none of the rank's.
void TorchDevices::set_current(const cohort_stream& stream) {
  const host::Device thread{devices_.front().type, guard_.getDevice().index()};
  if (std::ranges::find(devices_, thread) == devices_.end()) guard_.setDevice(torch_device(devices_.front()));
  guard_.exchangeStream(torch_stream(stream));
}

// Communication shall not wait behind the kernels of the backward pass.
cohort_stream TorchDevices::make_stream(host::Device device) {
  return give_out(guard_.getStreamFromGlobalPool(torch_device(device), /*isHighPriority=*/true));
}

std::shared_ptr<host::DeviceEvent> TorchDevices::record(const cohort_stream& stream) {
  return std::make_shared<Event>(torch_stream(stream));
}

void TorchDevices::order(const cohort_stream& stream, host::DeviceEvent& event) {
  static_cast<Event&>(event).block(torch_stream(stream));
}

void* TorchDevices::alloc(uint64_t nbytes, const cohort_stream& stream) {
  const c10::StreamGuard guard(torch_stream(stream));
  c10::DataPtr made = allocate(guard_.type(), std::max<uint64_t>(nbytes, 1));
  void* const memory = made.get();
  const std::lock_guard lock(mutex_);
  memory_.emplace(memory, std::move(made));
  return memory;
}

void TorchDevices::release(void* memory, const cohort_stream& stream) {
  const c10::Stream last_user = torch_stream(stream);
  c10::DataPtr freed;
  {
    const std::lock_guard lock(mutex_);
    const auto found = memory_.find(memory);
    if (found == memory_.end()) throw UserError("device memory is released that alloc did not give");
    freed = std::move(found->second);
    memory_.erase(found);
  }
  guard_.recordDataPtrOnStream(freed, last_user);
}

void TorchDevices::fill_with_zeros(void* memory, uint64_t nbytes, const cohort_stream& stream) {
  const c10::StreamGuard guard(torch_stream(stream));
  bytes_at(memory, nbytes, guard.current_device()).zero_();
}

void TorchDevices::copy_from_host(void* device, const void* host, uint64_t nbytes, const cohort_stream& stream) {
  const c10::StreamGuard guard(torch_stream(stream));
  bytes_at(device, nbytes, guard.current_device()).copy_(bytes_at(const_cast<void*>(host), nbytes, c10::kCPU));
}

void TorchDevices::copy_to_host(void* host, const void* device, uint64_t nbytes, const cohort_stream& stream) {
  const c10::StreamGuard guard(torch_stream(stream));
  bytes_at(host, nbytes, c10::kCPU).copy_(bytes_at(const_cast<void*>(device), nbytes, guard.current_device()));
}

}  // namespace cohort
