#include "numbers.hpp"

#include <sodium.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <typeinfo>

#include <gloo/transport/device.h>

namespace cohort::gloo {

constexpr uint32_t kNumbers = 1U << 17;  // drawing one costs some 20 ns

/// Room for a gloo::transport::tcp::Address, which is a table of functions, a socket address, a number and a mutex.
/// Like that it is not copied bit by bit, so that functions return both in the same way. It owns nothing.
class Address {
 public:
  Address() = default;
  Address(const Address&) {}
  Address& operator=(const Address&) = delete;
  ~Address() {}

 private:
  alignas(std::max_align_t) std::array<std::byte, 1024> room_;
};

/// gloo::transport::tcp::Device::nextAddress(), of a class that the headers which come with LibTorch do not have.
Address next_address(const void* tcp_device) __asm__("_ZN4gloo9transport3tcp6Device11nextAddressEv")
    __attribute__((weak));

void begin_anywhere(const ::gloo::transport::Device& device) {
  const bool is_tcp = std::string_view(typeid(device).name()) == "N4gloo9transport3tcp6DeviceE";
  if (!is_tcp || !next_address || ::sodium_init() < 0) return;
  for (uint32_t left = ::randombytes_uniform(kNumbers); left > 0; --left) next_address(&device);
}

}  // namespace cohort::gloo
