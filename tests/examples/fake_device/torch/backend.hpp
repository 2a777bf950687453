// Tests on libfake_torch.so, which they open as a host does: nothing here is linked with it.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "fakedrv.h"

namespace fake {

/// Opens the library, once, and takes one thread for each operator.
void open_backend();

inline torch::Device device(int index = 0) {
  return {torch::kPrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

inline c10::impl::VirtualGuardImpl guard() {
  return c10::impl::VirtualGuardImpl(torch::kPrivateUse1);
}

/// Makes a stream of its device the current one, for a while.
class WithStream {
 public:
  explicit WithStream(c10::Stream stream) : before_(guard().exchangeStream(stream)) {}
  ~WithStream() { guard().exchangeStream(before_); }
  WithStream(const WithStream&) = delete;
  WithStream& operator=(const WithStream&) = delete;

 private:
  c10::Stream before_;
};

/// Returns the text of the c10::Error that a call throws, "" if it throws none.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

/// Orders what the stream does from now on behind what another one has been given.
inline void order(c10::Stream stream, c10::Stream other) {
  c10::Event event(torch::kPrivateUse1);
  event.record(other);
  event.block(stream);
}

inline void wait() {
  for (int index = 0; index < FAKEDRV_DEVICES; ++index) {
    guard().synchronizeDevice(static_cast<c10::DeviceIndex>(index));
  }
}

/// The parameter says whether work runs when it is enqueued.
class Backend : public testing::TestWithParam<bool> {
 public:
  static void SetUpTestSuite() { open_backend(); }

 protected:
  void SetUp() override {
    fakedrv_set_eager(GetParam() ? 1 : 0);
    fakedrv_set_race_check(1);
    torch::manual_seed(1);
  }
  void TearDown() override {
    wait();
    fakedrv_set_eager(0);
    fakedrv_set_race_check(1);
  }
};

inline std::string name_of_mode(const testing::TestParamInfo<bool>& tested) {
  return tested.param ? "Eager" : "Lazy";
}

/// True if all bits of two tensors are equal, wherever they lie.
inline bool have_equal_bits(const torch::Tensor& one, const torch::Tensor& other) {
  const torch::Tensor a = one.detach().cpu().contiguous(), b = other.detach().cpu().contiguous();
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  return a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace fake
