// Checks which tables of kernels the host completes, passes on or refuses.
#include <cstring>

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>
#include <cohort/host/plugin_host.hpp>

#include "accelerator/accelerator.hpp"

namespace cohort::host {
namespace {

using testing::HasSubstr;

constexpr cohort_stream kCpu{nullptr, COHORT_DEVICE_CPU, 0};

// A vendor's own table of kernels, and the id that it is found by.
constexpr int kTopk = 7;
constexpr const char* kTopkId = "org.example.topk/1";

cohort_status twice(cohort_accelerator*, void* out, const void*, int32_t, uint64_t, double,
                    const cohort_stream*) noexcept {
  *static_cast<float*>(out) = 2;
  return COHORT_OK;
}

// Knows numbers of 64 bits alone; of the float64 that it scales, the first is 2 then.
cohort_status twice_if_wide(cohort_accelerator* a, void* out, const void*, int32_t dtype, uint64_t, double,
                            const cohort_stream*) noexcept {
  if (dtype == COHORT_INT64) return a->host->fail(a->host, COHORT_INVALID_ARGUMENT, "not for int64");
  if (dtype != COHORT_FLOAT64) return a->host->fail(a->host, COHORT_UNIMPLEMENTED, "float64 only");
  *static_cast<double*>(out) = 2;
  return COHORT_OK;
}

// An accelerator of CPU tensors that has one kernel and a table of its own; `core` is what it gives for the core table.
struct Given {
  static inline const void* core = nullptr;

  static cohort_status device_count(cohort_accelerator*, int32_t* count) noexcept {
    *count = 1;
    return COHORT_OK;
  }
  static const void* kernels(cohort_accelerator*, const char* id) noexcept {
    if (std::strcmp(id, COHORT_KERNELS_CORE_ID) == 0) return core;
    return std::strcmp(id, kTopkId) == 0 ? &kTopk : nullptr;
  }
};

class Kernels : public testing::Test {
 protected:
  Kernels() {
    vt_.struct_size = sizeof vt_;
    vt_.device_type = COHORT_DEVICE_CPU;
    vt_.torch_device_type = "cpu";
    vt_.device_count = Given::device_count;
    vt_.kernels = Given::kernels;
    component_.struct_size = sizeof component_;
    component_.kind = COHORT_KIND_ACCELERATOR;
    component_.name = "few";
    component_.vtable = &vt_;
    core_.struct_size = sizeof core_;
    core_.scale = twice;
    Given::core = &core_;
  }

  std::string refusal() {
    try {
      Accelerator(component_, host_).take_kernels();
    } catch (const PluginRefused& error) {
      return error.what();
    }
    return "";
  }

  Log log_{LogSettings{}};
  HostObject host_{log_};
  cohort_accelerator_vt vt_{};
  cohort_component component_{};
  cohort_kernels_core_1 core_{};
};

TEST_F(Kernels, TakeTheAcceleratorsOwnAndTheHostsForTheRest) {
  Accelerator accelerator(component_, host_);
  accelerator.take_kernels();
  const auto* const core =
      static_cast<const cohort_kernels_core_1*>(accelerator.kernels(COHORT_DEVICE_CPU, COHORT_KERNELS_CORE_ID));
  ASSERT_TRUE(core);
  EXPECT_EQ(core->struct_size, sizeof *core);
  EXPECT_EQ(core->accelerator, accelerator.get());
  const float x[] = {1, 2, 3};
  float y[] = {10, 20, 30};
  EXPECT_EQ(core->scale(core->accelerator, y, x, COHORT_FLOAT32, 3, 5.0, &kCpu), COHORT_OK);
  EXPECT_THAT(y, testing::ElementsAre(2, 20, 30)) << "the accelerator's own";
  y[0] = 10;
  double squares = 0;
  EXPECT_EQ(core->axpby(core->accelerator, y, x, COHORT_FLOAT32, 3, 2.0, 1.0, &kCpu), COHORT_OK);
  EXPECT_THAT(y, testing::ElementsAre(12, 24, 36));
  EXPECT_EQ(core->square_sum(core->accelerator, x, COHORT_FLOAT32, 3, &squares, &kCpu), COHORT_OK);
  EXPECT_EQ(squares, 14.0);
}

TEST_F(Kernels, AreCompleteWithoutAnyTable) {
  vt_.kernels = nullptr;
  Accelerator accelerator(component_, host_);
  accelerator.take_kernels();
  for (const char* id : {COHORT_KERNELS_CORE_ID, COHORT_KERNELS_MINMAX_UINT8_ID, COHORT_KERNELS_ADAM_ID}) {
    const void* const table = accelerator.kernels(COHORT_DEVICE_CPU, id);
    ASSERT_TRUE(table) << id;
    uint32_t size = 0;
    std::memcpy(&size, table, sizeof size);
    for (uint32_t offset = COHORT_END(cohort_kernels_core_1, accelerator); offset < size; offset += sizeof(void*)) {
      void* entry = nullptr;
      std::memcpy(&entry, static_cast<const char*>(table) + offset, sizeof entry);
      EXPECT_TRUE(entry) << id << " at " << offset;
    }
  }
}

TEST_F(Kernels, ReachStrategiesUntouchedUnderAVendorsId) {
  Accelerator accelerator(component_, host_);
  accelerator.take_kernels();
  EXPECT_EQ(accelerator.kernels(COHORT_DEVICE_CPU, kTopkId), &kTopk);
  EXPECT_EQ(accelerator.kernels(COHORT_DEVICE_CPU, "org.example.unknown/1"), nullptr);
  EXPECT_EQ(accelerator.kernels(COHORT_DEVICE_CPU, "cohort.kernels.core/2"), nullptr);
  EXPECT_EQ(accelerator.kernels(COHORT_DEVICE_CUDA, kTopkId), nullptr);
  EXPECT_EQ(accelerator.kernels(COHORT_DEVICE_CUDA, COHORT_KERNELS_CORE_ID), nullptr);
}

TEST_F(Kernels, RunOnTheHostForTypesThatThePluginDoesNotKnow) {
  core_.scale = twice_if_wide;
  Accelerator accelerator(component_, host_);
  accelerator.take_kernels();
  const cohort_kernels_core_1& core = accelerator.core_kernels();
  const float x[] = {1, 2, 3};
  float y[] = {0, 0, 0};
  EXPECT_EQ(core.scale(core.accelerator, y, x, COHORT_FLOAT32, 3, 5.0, &kCpu), COHORT_OK);
  EXPECT_THAT(y, testing::ElementsAre(5, 10, 15)) << "the host's";
  EXPECT_THAT(host_.take_message(COHORT_UNIMPLEMENTED), testing::Not(HasSubstr("float64 only"))) << "it is dropped";
  const double wide[] = {1, 2};
  double scaled[] = {0, 7};
  EXPECT_EQ(core.scale(core.accelerator, scaled, wide, COHORT_FLOAT64, 2, 5.0, &kCpu), COHORT_OK);
  EXPECT_THAT(scaled, testing::ElementsAre(2, 7)) << "the plugin's";
  EXPECT_EQ(core.scale(core.accelerator, scaled, wide, 99, 2, 5.0, &kCpu), COHORT_UNIMPLEMENTED) << "nobody's";
}

TEST_F(Kernels, ThatAreRefusedByThePluginStayRefused) {
  core_.scale = twice_if_wide;
  Accelerator accelerator(component_, host_);
  accelerator.take_kernels();
  const cohort_kernels_core_1& core = accelerator.core_kernels();
  int64_t x[] = {1, 2};
  EXPECT_EQ(core.scale(core.accelerator, x, x, COHORT_INT64, 2, 5.0, &kCpu), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(host_.take_message(COHORT_INVALID_ARGUMENT), "not for int64");
  EXPECT_THAT(x, testing::ElementsAre(1, 2));
}

TEST_F(Kernels, AreRefusedInATableThatCannotBeRead) {
  core_.struct_size = 3;
  EXPECT_THAT(refusal(), HasSubstr("accelerator 'few' has a cohort_kernels_core_1 of 3 bytes"));
  core_.struct_size = COHORT_END(cohort_kernels_core_1, scale) + 4;
  EXPECT_THAT(refusal(), HasSubstr("end within a kernel; set its struct_size to sizeof(cohort_kernels_core_1)"));
  for (const uint32_t size : {8u, COHORT_END(cohort_kernels_core_1, scale), COHORT_KERNELS_CORE_SIZE_1_0 - 8}) {
    core_.struct_size = size;
    EXPECT_THAT(refusal(), HasSubstr("of " + std::to_string(size) + " bytes; set its struct_size to sizeof"));
  }
  core_.struct_size = sizeof core_;
  core_.reserved0 = 1;
  EXPECT_THAT(refusal(), HasSubstr("sets a reserved field of its cohort_kernels_core_1"));
  core_.reserved0 = 0;
  core_.accelerator = reinterpret_cast<cohort_accelerator*>(&core_);
  EXPECT_THAT(refusal(), HasSubstr("sets the accelerator of its cohort_kernels_core_1, which is the host's to set"));
}

// A plugin may have more kernels than the host: no strategy that runs here can ask for them.
TEST_F(Kernels, ThatThisHostDoesNotKnowAreLeftOut) {
  struct Newer {
    cohort_kernels_core_1 known;
    void (*unknown)();
  } newer{core_, [] {}};
  newer.known.struct_size = sizeof newer;
  Given::core = &newer;
  Accelerator accelerator(component_, host_);
  accelerator.take_kernels();
  const cohort_kernels_core_1& core = accelerator.core_kernels();
  EXPECT_EQ(core.struct_size, sizeof core);
  float x[] = {1, 2};
  EXPECT_EQ(core.scale(core.accelerator, x, x, COHORT_FLOAT32, 2, 5.0, &kCpu), COHORT_OK);
  EXPECT_THAT(x, testing::ElementsAre(2, 2)) << "the accelerator's own";
}

}  // namespace
}  // namespace cohort::host
