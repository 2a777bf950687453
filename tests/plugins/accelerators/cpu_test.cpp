#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "elements.hpp"
#include "fake_host.hpp"
#include "plugin_file.hpp"

namespace {

using namespace cohort::test;
using testing::HasSubstr;

constexpr cohort_stream kStream{nullptr, COHORT_DEVICE_CPU, 0};

// Drives the accelerator as a host does, through the C ABI.
class Cpu {
 public:
  Cpu() : object_{sizeof(cohort_accelerator), 0, vtable(), nullptr, host.raw()} {}
  ~Cpu() { object_.vt->destroy(&object_); }

  static const cohort_accelerator_vt* vtable() {
    return static_cast<const cohort_accelerator_vt*>(
        component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_ACCELERATOR).vtable);
  }
  cohort_status create(const char* isa) {
    const cohort_key_value option{"isa", isa};
    return object_.vt->create(&object_, &option, 1);
  }
  const cohort_kernels_core_1& kernels() {
    return *static_cast<const cohort_kernels_core_1*>(object_.vt->kernels(&object_, COHORT_KERNELS_CORE_ID));
  }
  cohort_accelerator* object() { return &object_; }

  FakeHost host;

 private:
  cohort_accelerator object_;
};

/// The accelerator once for each instruction set of this machine.
inline std::map<std::string, std::unique_ptr<Cpu>> all_isas() {
  std::map<std::string, std::unique_ptr<Cpu>> result;
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    auto cpu = std::make_unique<Cpu>();
    if (cpu->create(isa) == COHORT_OK) result[isa] = std::move(cpu);
  }
  return result;
}

// Returns values whose products are no short binary fractions, so that the order of a sum shows in its bits.
std::vector<std::byte> fractions(int32_t dtype, uint64_t n, uint64_t seed) {
  std::vector<std::byte> elements(n * cohort::sdk::size_of(dtype));
  for (uint64_t i = 0; i < n; ++i) {
    put_element(elements.data(), dtype, i, static_cast<double>((i * 7919 + seed * 31) % 2001) / 63.0 - 15.0);
  }
  return elements;
}

TEST(CpuAccelerator, SaysWhatTheMachineIs) {
  Cpu cpu;
  ASSERT_EQ(cpu.create("auto"), COHORT_OK);
  const auto* vt = Cpu::vtable();
  EXPECT_EQ(vt->device_type, COHORT_DEVICE_CPU);
  EXPECT_STREQ(vt->torch_device_type, "cpu");
  int32_t count = 0;
  EXPECT_EQ(vt->device_count(cpu.object(), &count), COHORT_OK);
  EXPECT_GE(count, 1);
  cohort_device_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(vt->device_info(cpu.object(), 0, &info), COHORT_OK);
  EXPECT_GT(std::strlen(info.name), 0u);
  EXPECT_GT(info.memory_bytes, uint64_t{1} << 20);
  EXPECT_EQ(vt->select(cpu.object(), 0), COHORT_OK);
  EXPECT_EQ(vt->select(cpu.object(), -1), COHORT_INVALID_ARGUMENT);
}

TEST(CpuAccelerator, RefusesInstructionsItDoesNotHave) {
  Cpu cpu;
  EXPECT_EQ(cpu.create("mmx"), COHORT_INVALID_ARGUMENT);
  EXPECT_THAT(cpu.host.take_failure(), HasSubstr("mmx"));
}

// The conformance suite checks the results of each instruction set, but allows sums that differ by roundings. Here the
// sums of all instruction sets have to be equal.
TEST(CpuKernels, SumUpToTheSameBitsOnEveryInstructionSet) {
  for (const int32_t dtype : {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16}) {
    for (const uint64_t n : {0u, 1u, 15u, 16u, 17u, 4099u, 1000003u}) {
      const std::vector<std::byte> x = fractions(dtype, n, 1), y = fractions(dtype, n, 2);
      std::vector<std::pair<double, double>> results;
      for (const auto& [isa, cpu] : all_isas()) {
        const cohort_kernels_core_1& kernels = cpu->kernels();
        results.emplace_back(-1, -1);
        ASSERT_EQ(kernels.dot(nullptr, x.data(), y.data(), dtype, n, &results.back().first, &kStream), COHORT_OK);
        ASSERT_EQ(kernels.square_sum(nullptr, x.data(), dtype, n, &results.back().second, &kStream), COHORT_OK);
        EXPECT_EQ(results.back(), results.front()) << isa;
      }
    }
  }
}

}  // namespace
