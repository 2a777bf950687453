// Kernels that a device lacks, run through pinned memory: the accelerator `device` has none, and a read or write of its
// memory by the host ends this program. References are the host's portable kernels on plain memory.
#include <cstring>

#include <gmock/gmock.h>

#include <cohort/host/plugin_host.hpp>
#include <cohort/sdk/dtype.hpp>

#include "accelerator/accelerator.hpp"
#include "elements.hpp"
#include "fake_device.hpp"

namespace cohort::host {
namespace {

using test::DeviceMemory;

constexpr cohort_stream kCpuMemory{nullptr, COHORT_DEVICE_CPU, 0};
constexpr int32_t kFloats[] = {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16};

// Bytes on the device and the same ones in plain memory.
struct Twin {
  explicit Twin(size_t nbytes) : device(nbytes), plain(nbytes) {}
  Twin(int32_t dtype, uint64_t n, double first) : Twin(n * sdk::size_of(dtype)) {
    for (uint64_t i = 0; i < n; ++i) test::put_element(plain.data(), dtype, i, first + static_cast<double>(i) / 8.0);
    if (!plain.empty()) std::memcpy(device.contents(), plain.data(), plain.size());
  }
  bool is_equal() const { return plain.empty() || std::memcmp(device.contents(), plain.data(), plain.size()) == 0; }

  DeviceMemory device;
  std::vector<std::byte> plain;
};

class StagedKernels : public testing::Test {
 protected:
  StagedKernels()
      : plugins_(search(), log_),
        accelerator_(plugins_.open(Kind::kAccelerator, "device"), host_),
        stream_{this, DeviceMemory::kDeviceType, 0} {
    accelerator_.take_kernels();
  }

  static PluginSearch search() {
    PluginSearch search;
    search.directories = {TEST_PLUGIN_FOLDER};
    return search;
  }

  /// A table for the device, or for the CPU beside it.
  template <class Table>
  const Table& table(int32_t device_type, const char* id) {
    return *static_cast<const Table*>(accelerator_.kernels(device_type, id));
  }

  /// Calls `kernel(table, pointer of each twin, stream)` on the device and on plain memory; all must be equal then.
  template <class Table, class Kernel>
  void check(const char* id, std::initializer_list<Twin*> twins, Kernel kernel) {
    std::vector<void*> device, plain;
    for (Twin* twin : twins) {
      device.push_back(twin->device.device());
      plain.push_back(twin->plain.data());
    }
    ASSERT_EQ(kernel(table<Table>(DeviceMemory::kDeviceType, id), device, &stream_), COHORT_OK);
    ASSERT_EQ(kernel(table<Table>(COHORT_DEVICE_CPU, id), plain, &kCpuMemory), COHORT_OK);
    for (Twin* twin : twins) EXPECT_TRUE(twin->is_equal());
  }
  template <class Kernel>
  void check_core(std::initializer_list<Twin*> twins, Kernel kernel) {
    check<cohort_kernels_core_1>(COHORT_KERNELS_CORE_ID, twins, kernel);
  }

  Log log_{LogSettings{}};
  HostObject host_{log_};
  PluginHost plugins_;
  Accelerator accelerator_;
  cohort_stream stream_;
};

using Core = cohort_kernels_core_1;
using Pointers = std::vector<void*>;

TEST_F(StagedKernels, ComputeElementsAsTheCpuDoes) {
  for (const int32_t t : kFloats) {
    for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{4099}}) {
      SCOPED_TRACE(std::string(sdk::name_of(t)) + " x " + std::to_string(n));
      Twin out(t, n, 1), x(t, n, 2), y(t, n, 3), wide(COHORT_FLOAT64, n, 0);
      check_core({&out}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        return k.fill(k.accelerator, p[0], t, n, 1.5, s);
      });
      check_core({&out, &x}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        return k.copy(k.accelerator, p[0], p[1], n * sdk::size_of(t), s);
      });
      check_core({&out, &y}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        return k.scale(k.accelerator, p[0], p[1], t, n, 0.3, s);
      });
      check_core({&out}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        return k.scale(k.accelerator, p[0], p[0], t, n, 0.3, s);
      });
      check_core({&out, &x}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        return k.axpby(k.accelerator, p[0], p[1], t, n, 0.1, 0.9, s);
      });
      check_core({&wide, &x}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        return k.cast(k.accelerator, p[0], COHORT_FLOAT64, p[1], t, n, s);
      });
      check_core({&out, &x, &y}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        const void* const inputs[] = {p[0], p[1], p[2]};
        return k.sum_of_n(k.accelerator, p[0], inputs, 3, t, n, 0.5, s);
      });
    }
  }
}

TEST_F(StagedKernels, ReduceIntoMemoryOfTheDevice) {
  for (const int32_t t : kFloats) {
    for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{4099}}) {
      SCOPED_TRACE(std::string(sdk::name_of(t)) + " x " + std::to_string(n));
      Twin x(t, n, 2), y(t, n, 3), sum(COHORT_FLOAT64, 1, -1), found(COHORT_FLOAT64, 1, -1);
      check_core({&sum, &x}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        return k.square_sum(k.accelerator, p[1], t, n, static_cast<double*>(p[0]), s);
      });
      check_core({&sum, &x, &y}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        return k.dot(k.accelerator, p[1], p[2], t, n, static_cast<double*>(p[0]), s);
      });
      check_core({&found, &x}, [&](const Core& k, const Pointers& p, const cohort_stream* s) {
        return k.found_inf(k.accelerator, p[1], t, n, static_cast<uint32_t*>(p[0]), s);
      });
    }
  }
}

TEST_F(StagedKernels, EncodeAndDecodeAsTheCpuDoes) {
  using Codec = cohort_kernels_minmax_uint8_1;
  constexpr uint64_t kNumel = 333, kChunks = 3;
  for (const int32_t t : kFloats) {
    SCOPED_TRACE(sdk::name_of(t));
    Twin chunks(COHORT_UINT8, kChunks * COHORT_MINMAX_UINT8_NBYTES(kNumel), 5);
    Twin elements(t, kChunks * kNumel, -20), sum(t, kNumel, 1);
    check<Codec>(COHORT_KERNELS_MINMAX_UINT8_ID, {&chunks, &elements},
                 [&](const Codec& k, const Pointers& p, const cohort_stream* s) {
                   return k.encode(k.accelerator, p[0], p[1], t, kNumel, kChunks, 2.0, s);
                 });
    check<Codec>(COHORT_KERNELS_MINMAX_UINT8_ID, {&chunks, &elements},
                 [&](const Codec& k, const Pointers& p, const cohort_stream* s) {
                   return k.decode(k.accelerator, p[1], t, p[0], kNumel, kChunks, s);
                 });
    for (const bool has_start : {true, false}) {
      check<Codec>(COHORT_KERNELS_MINMAX_UINT8_ID, {&chunks, &sum},
                   [&](const Codec& k, const Pointers& p, const cohort_stream* s) {
                     return k.decode_add(k.accelerator, p[1], has_start ? p[1] : nullptr, t, p[0], kNumel, kChunks, s);
                   });
    }
  }
}

TEST_F(StagedKernels, StepAsTheCpuDoes) {
  using Adam = cohort_kernels_adam_1;
  for (const int32_t t : kFloats) {
    constexpr uint64_t kN = 1001;
    Twin weight(t, kN, 1), momentum(t, kN, -3), square(t, kN, 0);
    check<Adam>(COHORT_KERNELS_ADAM_ID, {&weight, &momentum, &square},
                [&](const Adam& k, const Pointers& p, const cohort_stream* s) {
                  return k.step(k.accelerator, p[0], p[1], p[2], t, kN, 0.99, 0.01, 0.3, 1e-8, s);
                });
  }
}

TEST_F(StagedKernels, SayOnceWhichOnesTheyAre) {
  Twin out(COHORT_FLOAT32, 4, 1);
  const auto& core = table<Core>(DeviceMemory::kDeviceType, COHORT_KERNELS_CORE_ID);
  testing::internal::CaptureStderr();
  for (int call = 0; call < 3; ++call) {
    core.fill(core.accelerator, out.device.device(), COHORT_FLOAT32, 4, 2.0, &stream_);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string line = "accelerator 'device' lacks the kernel fill: it runs on the CPU";
  ASSERT_NE(said.find(line), std::string::npos) << said;
  EXPECT_EQ(said.find(line, said.find(line) + 1), std::string::npos) << said;
}

TEST_F(StagedKernels, LeaveTheOutputAloneIfTheyRefuse) {
  Twin out(COHORT_INT64, 4, 1);
  const auto& core = table<Core>(DeviceMemory::kDeviceType, COHORT_KERNELS_CORE_ID);
  void* const data = out.device.device();
  EXPECT_EQ(core.scale(core.accelerator, data, data, COHORT_INT64, 4, 2.0, &stream_), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(core.scale(core.accelerator, data, data, 99, 4, 2.0, &stream_), COHORT_UNIMPLEMENTED);
  EXPECT_EQ(core.cast(core.accelerator, data, 99, data, COHORT_FLOAT64, 4, &stream_), COHORT_UNIMPLEMENTED);
  EXPECT_TRUE(out.is_equal());
}

// The accelerator ends the program if memory is freed that a copy is still to use, at the latest with this fixture.
TEST_F(StagedKernels, KeepMemoryUntilCopiesAreDone) {
  constexpr uint64_t kNumel = DeviceMemory::kRefusedBytes / sizeof(float);
  Twin chunks(COHORT_UINT8, COHORT_MINMAX_UINT8_NBYTES(kNumel), 5), start(COHORT_FLOAT32, kNumel, 1);
  const auto& codec = table<cohort_kernels_minmax_uint8_1>(DeviceMemory::kDeviceType, COHORT_KERNELS_MINMAX_UINT8_ID);
  void* const sum = start.device.device();
  EXPECT_EQ(codec.decode_add(codec.accelerator, sum, sum, COHORT_FLOAT32, chunks.device.device(), kNumel, 1, &stream_),
            COHORT_INTERNAL);
  EXPECT_TRUE(start.is_equal());
}

}  // namespace
}  // namespace cohort::host
