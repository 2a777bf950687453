// Accelerators in C++: derive from Accelerator<D>.
//
//   struct Npu : cohort::sdk::Accelerator<Npu> {
//     static constexpr int32_t kDeviceType = 12;
//     static constexpr const char* kTorchDeviceType = "privateuseone";
//     static constexpr const char* kTorchLibrary = nullptr;   // a further LibTorch library to open first
//     int32_t device_count();                                 // required
//   };
//   constexpr cohort_component kNpu = cohort::sdk::accelerator<Npu>("npu", "neural processing units");
//
// D may also declare create(const Options&), void device_info(int32_t index, cohort_device_info&), void select(int32_t
// index), const void* kernels(const char* id), const void* get_extension(const char* id), and, all five or none: void*
// alloc_pinned(uint64_t nbytes), void free_pinned(void*), void copy_to_host(void* pinned, const void* device, uint64_t
// nbytes, const cohort_stream&), void copy_to_device(void* device, const void* pinned, uint64_t nbytes, const
// cohort_stream&), void wait(const cohort_stream&). It must not be final. Threads: as cohort/api/accelerator.h says.
#pragma once

#include <memory>
#include <optional>

#include <cohort/api/accelerator.h>
#include <cohort/sdk/detail/slot.hpp>
#include <cohort/sdk/host.hpp>
#include <cohort/sdk/plugin.hpp>

namespace cohort::sdk {
inline namespace v1 {

namespace detail {
template <class D>
struct AcceleratorTable;
}

template <class D>
class Accelerator {
 protected:
  const Host& host() const { return *host_; }
  Log log() const { return host_->log(); }

 private:
  friend struct detail::AcceleratorTable<D>;
  std::optional<Host> host_;
};

namespace detail {

namespace accelerator_slots {
COHORT_SDK_SLOT(create)
COHORT_SDK_SLOT(device_info)
COHORT_SDK_SLOT(select)
COHORT_SDK_SLOT(alloc_pinned)
COHORT_SDK_SLOT(kernels)
COHORT_SDK_SLOT(get_extension)
}  // namespace accelerator_slots

template <class D>
struct AcceleratorTable {
  static D& self(cohort_accelerator* a) noexcept { return *static_cast<D*>(a->data); }

  static cohort_status create(cohort_accelerator* a, const cohort_key_value* options, uint64_t num_options) noexcept {
    return guard(a->host, [&] {
      auto accelerator = std::make_unique<D>();
      Accelerator<D>& base = *accelerator;
      base.host_.emplace(a->host);
      if constexpr (accelerator_slots::declares_create<D>) accelerator->create(Options("", options, num_options));
      a->data = accelerator.release();
    });
  }
  static void destroy(cohort_accelerator* a) noexcept {
    delete static_cast<D*>(a->data);
    a->data = nullptr;
  }
  static cohort_status device_count(cohort_accelerator* a, int32_t* count) noexcept {
    return guard(a->host, [&] { *count = self(a).device_count(); });
  }
  static cohort_status device_info(cohort_accelerator* a, int32_t index, cohort_device_info* info) noexcept {
    return guard(a->host, [&] { self(a).device_info(index, *info); });
  }
  static cohort_status select(cohort_accelerator* a, int32_t index) noexcept {
    return guard(a->host, [&] { self(a).select(index); });
  }
  static cohort_status alloc_pinned(cohort_accelerator* a, uint64_t nbytes, void** memory) noexcept {
    return guard(a->host, [&] { *memory = self(a).alloc_pinned(nbytes); });
  }
  static void free_pinned(cohort_accelerator* a, void* memory) noexcept {
    guard(a->host, [&] { self(a).free_pinned(memory); });
  }
  static cohort_status copy_to_host(cohort_accelerator* a, void* pinned, const void* device, uint64_t nbytes,
                                    const cohort_stream* stream) noexcept {
    return guard(a->host, [&] { self(a).copy_to_host(pinned, device, nbytes, *stream); });
  }
  static cohort_status copy_to_device(cohort_accelerator* a, void* device, const void* pinned, uint64_t nbytes,
                                      const cohort_stream* stream) noexcept {
    return guard(a->host, [&] { self(a).copy_to_device(device, pinned, nbytes, *stream); });
  }
  static cohort_status wait(cohort_accelerator* a, const cohort_stream* stream) noexcept {
    return guard(a->host, [&] { self(a).wait(*stream); });
  }
  static const void* kernels(cohort_accelerator* a, const char* id) noexcept {
    const void* table = nullptr;
    guard(a->host, [&] { table = self(a).kernels(id); });
    return table;
  }
  static const void* get_extension(cohort_accelerator* a, const char* id) noexcept {
    const void* table = nullptr;
    guard(a->host, [&] { table = self(a).get_extension(id); });
    return table;
  }

  static constexpr cohort_accelerator_vt make() {
    using namespace accelerator_slots;
    cohort_accelerator_vt vt{};
    vt.struct_size = sizeof vt;
    vt.device_type = D::kDeviceType;
    vt.torch_device_type = D::kTorchDeviceType;
    vt.torch_library = D::kTorchLibrary;
    vt.create = create;
    vt.destroy = destroy;
    vt.device_count = device_count;
    if constexpr (declares_device_info<D>) vt.device_info = device_info;
    if constexpr (declares_select<D>) vt.select = select;
    if constexpr (declares_alloc_pinned<D>) {
      vt.alloc_pinned = alloc_pinned;
      vt.free_pinned = free_pinned;
      vt.copy_to_host = copy_to_host;
      vt.copy_to_device = copy_to_device;
      vt.wait = wait;
    }
    if constexpr (declares_kernels<D>) vt.kernels = kernels;
    if constexpr (declares_get_extension<D>) vt.get_extension = get_extension;
    return vt;
  }
};

template <class D>
inline constexpr cohort_accelerator_vt kAcceleratorTable = AcceleratorTable<D>::make();

}  // namespace detail

/// Describes the accelerator that D implements. `name` and `summary` are literals.
template <class D>
constexpr Component accelerator(const char* name, const char* summary) {
  return {COHORT_KIND_ACCELERATOR, &detail::kAcceleratorTable<D>, name, summary};
}

}  // namespace v1
}  // namespace cohort::sdk
