// Accelerators in C++: derive from Accelerator<D>.
//
//   struct Npu : cohort::sdk::Accelerator<Npu> {
//     static constexpr int32_t kDeviceType = 12;
//     static constexpr const char* kTorchDeviceType = "privateuseone";
//     int32_t device_count();                                 // required
//   };
//   constexpr cohort_component kNpu = cohort::sdk::accelerator<Npu>("npu", "neural processing units");
//
// Each method of Accelerator<D> is a slot of cohort_accelerator_vt; slots that D does not define stay null. Threads:
// see each slot in cohort/api/accelerator.h.
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
 public:
  /// LibTorch's name for the devices ("cuda"), or null if they are for programs without LibTorch.
  static constexpr const char* kTorchDeviceType = nullptr;
  /// A further LibTorch library to open first ("libtorch_cuda.so"), or null.
  static constexpr const char* kTorchLibrary = nullptr;

  /// Reads the options, which the host has checked. [main]
  void create(const Options& /*options*/) {}
  /// Fills in the name and the memory, in bytes, of device `index`. [main]
  void device_info(int32_t /*index*/, cohort_device_info& /*info*/) { throw missing(); }
  /// Makes device `index` the calling thread's current one. [any-thread]
  void select(int32_t /*index*/) { throw missing(); }
  /// Returns host memory for copies that overlap with other work. D defines alloc_pinned, free_pinned, copy_to_host,
  /// copy_to_device and wait, or none. [any-thread]
  void* alloc_pinned(uint64_t /*nbytes*/) { throw missing(); }
  /// Frees memory of alloc_pinned. [any-thread]
  void free_pinned(void* /*memory*/) { throw missing(); }
  /// Enqueues a copy to the host on the stream. [any-thread]
  void copy_to_host(void* /*pinned*/, const void* /*device*/, uint64_t /*nbytes*/, const cohort_stream& /*stream*/) {
    throw missing();
  }
  /// Enqueues a copy to the device on the stream. [any-thread]
  void copy_to_device(void* /*device*/, const void* /*pinned*/, uint64_t /*nbytes*/, const cohort_stream& /*stream*/) {
    throw missing();
  }
  /// Blocks until all work on the stream is done. [any-thread]
  void wait(const cohort_stream& /*stream*/) { throw missing(); }
  /// Returns the kernel table with this id for this device type, or null. [any-thread]
  const void* kernels(const char* /*id*/) { return nullptr; }
  /// Returns the table with this id, or null. [any-thread]
  const void* get_extension(const char* /*id*/) { return nullptr; }

 protected:
  const Host& host() const { return *host_; }
  Log log() const { return host_->log(); }

 private:
  friend struct detail::AcceleratorTable<D>;
  static Error missing() { return {COHORT_UNIMPLEMENTED, "this accelerator does not have the function"}; }
  std::optional<Host> host_;
};

namespace detail {

template <class D>
struct AcceleratorTable {
  using Base = Accelerator<D>;
  static D& self(cohort_accelerator* a) noexcept { return *static_cast<D*>(a->data); }

  static cohort_status create(cohort_accelerator* a, const cohort_key_value* options, uint64_t num_options) noexcept {
    return guard(a->host, [&] {
      auto accelerator = std::make_unique<D>();
      Base& base = *accelerator;
      base.host_.emplace(a->host);
      accelerator->create(Options("", options, num_options));
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
  static cohort_status alloc_pinned(cohort_accelerator* a, uint64_t nbytes, void** memory) noexcept {
    return guard(a->host, [&] { *memory = self(a).alloc_pinned(nbytes); });
  }
  static void free_pinned(cohort_accelerator* a, void* memory) noexcept {
    guard(a->host, [&] { self(a).free_pinned(memory); });
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

  static constexpr void fill_copies(cohort_accelerator_vt& vt) {
    constexpr bool has_pinned = overrides<D, &D::alloc_pinned, &Base::alloc_pinned>();
    static_assert(has_pinned == overrides<D, &D::free_pinned, &Base::free_pinned>() &&
                      has_pinned == overrides<D, &D::copy_to_host, &Base::copy_to_host>() &&
                      has_pinned == overrides<D, &D::copy_to_device, &Base::copy_to_device>() &&
                      has_pinned == overrides<D, &D::wait, &Base::wait>(),
                  "an accelerator has alloc_pinned, free_pinned, copy_to_host, copy_to_device and wait, or none");
    if constexpr (has_pinned) {
      vt.alloc_pinned = alloc_pinned;
      vt.free_pinned = free_pinned;
    }
    fill<D, &D::copy_to_host, &Base::copy_to_host>(vt.copy_to_host);
    fill<D, &D::copy_to_device, &Base::copy_to_device>(vt.copy_to_device);
    fill<D, &D::wait, &Base::wait>(vt.wait);
  }
  static constexpr cohort_accelerator_vt make() {
    overrides<D, &D::create, &Base::create>();
    cohort_accelerator_vt vt{};
    vt.struct_size = sizeof vt;
    vt.device_type = D::kDeviceType;
    vt.torch_device_type = D::kTorchDeviceType;
    vt.torch_library = D::kTorchLibrary;
    vt.create = create;
    vt.destroy = destroy;
    vt.device_count = device_count;
    fill<D, &D::device_info, &Base::device_info>(vt.device_info);
    fill<D, &D::select, &Base::select>(vt.select);
    fill_copies(vt);
    if constexpr (overrides<D, &D::kernels, &Base::kernels>()) vt.kernels = kernels;
    if constexpr (overrides<D, &D::get_extension, &Base::get_extension>()) vt.get_extension = get_extension;
    return vt;
  }
};

template <class D>
inline constexpr cohort_accelerator_vt kAcceleratorTable = AcceleratorTable<D>::make();

}  // namespace detail

/// Returns the description of accelerator D. `name` and `summary` are literals.
template <class D>
constexpr Component accelerator(const char* name, const char* summary) {
  return {COHORT_KIND_ACCELERATOR, &detail::kAcceleratorTable<D>, name, summary};
}

}  // namespace v1
}  // namespace cohort::sdk
