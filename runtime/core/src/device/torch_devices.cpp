#include "torch_devices.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
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
  explicit Event(c10::DeviceType type) : event_(type) {}
  void record(const c10::Stream& stream) { event_.record(stream); }
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

// A type that a library has added need not have hooks.
bool has_hooks(c10::DeviceType type) {
  return at::isAccelerator(type) && (type != c10::kPrivateUse1 || at::isPrivateUse1HooksRegistered());
}

// LibTorch asks once for the hooks of CUDA, and remembers that there were none.
void require_hooks(c10::DeviceType found, const host::TorchDeviceType& type) {
  if (type.library.empty() || !has_hooks(found)) return;
  if (at::globalContext().getAcceleratorHooksInterface(found).isBuilt()) return;
  throw UserError("this program used '" + type.name + "' devices of LibTorch before cohort opened " + type.library +
                  ", as torch::manual_seed, torch::cuda::is_available and pin_memory do, so LibTorch takes them for "
                  "missing; move such calls into the function that Program::run is given, or link the target "
                  "cohort::libtorch_" +
                  type.name);
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
  if (type.name.empty() && type.device_type != COHORT_DEVICE_CPU) {
    throw UserError(
        "the accelerator has no torch_device_type: its devices are for programs without LibTorch; choose another "
        "one, such as --accelerator=cpu");
  }
  if (!type.library.empty() && ::dlopen(beside_libtorch(type.library).c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    throw UserError("LibTorch's library for '" + type.name + "' devices cannot be opened: " + ::dlerror() +
                    "; install a LibTorch that has it, or choose --accelerator=cpu");
  }
  if (type.device_type == COHORT_DEVICE_CPU) return c10::kCPU;
  try {
    const c10::DeviceType found = c10::Device(type.name).type();
    c10::impl::getDeviceGuardImpl(found);  // throws if nothing is registered for the type
    require_hooks(found, type);
    return found;
  } catch (const c10::Error& error) {
    throw UserError("this LibTorch has no '" + type.name + "' devices (" + error.what_without_backtrace() +
                    "); install one that has, or choose --accelerator=cpu");
  }
}

// Keeps events for the next use: a driver takes longer to make one than to record it, and a lane needs two for a
// bucket.
class TorchDevices::Events : public std::enable_shared_from_this<Events> {
 public:
  std::shared_ptr<host::DeviceEvent> record(const c10::Stream& stream) {
    std::unique_ptr<host::DeviceEvent> event = take(stream.device_index());
    if (!event) event = std::make_unique<Event>(stream.device_type());
    static_cast<Event&>(*event).record(stream);
    const auto give_back = [all = shared_from_this(), index = stream.device_index()](host::DeviceEvent* freed) {
      all->give(index, std::unique_ptr<host::DeviceEvent>(freed));
    };
    return {event.release(), give_back};
  }

 private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, std::vector<std::unique_ptr<host::DeviceEvent>>> free_;  // an event stays on its device

  std::unique_ptr<host::DeviceEvent> take(c10::DeviceIndex index) {
    const std::lock_guard lock(mutex_);
    auto& free = free_[index];
    if (free.empty()) return nullptr;
    std::unique_ptr<host::DeviceEvent> event = std::move(free.back());
    free.pop_back();
    return event;
  }
  void give(c10::DeviceIndex index, std::unique_ptr<host::DeviceEvent> event) {
    const std::lock_guard lock(mutex_);
    free_[index].push_back(std::move(event));
  }
};

TorchDevices::TorchDevices(std::span<const c10::Device> devices, int32_t device_type)
    : guard_(devices.front().type()), events_(std::make_shared<Events>()) {
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
  if (has_hooks(guard_.type())) at::globalContext().lazyInitDevice(guard_.type());  // allocators ask for it
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
  return events_->record(torch_stream(stream));
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

void TorchDevices::wait(host::Device device) {
  guard_.synchronizeDevice(static_cast<c10::DeviceIndex>(device.index));
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
