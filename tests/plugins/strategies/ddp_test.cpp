#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <cohort/api/host/memory.h>
#include <cohort/api/host/stream.h>
#include <cohort/sdk/half.hpp>

#include "fake_host.hpp"
#include "fake_strategy.hpp"
#include "plugin_file.hpp"

namespace {

using namespace cohort::test;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// A job of `size` ranks that all have the same gradients: two buckets, one of float32 and one of bfloat16.
struct FakeJob {
  explicit FakeJob(FakeHost& host, int size) : world{sizeof(cohort_comm), 0, size, 0, nullptr, nullptr} {
    current = this;
    buckets[0] = make_bucket(0, COHORT_FLOAT32, 3, 12);
    buckets[1] = make_bucket(1, COHORT_BFLOAT16, 2, 4);
    comm_table.get = [](const cohort_host*, int32_t role) noexcept {
      current->asked_roles.push_back(role);
      return role == kAlone ? &current->alone : &current->world;
    };
    comm_table.all_reduce = [](const cohort_host*, cohort_comm*, const cohort_op_args* args) noexcept {
      current->reduced.push_back(*args);
      const auto* bytes = static_cast<const uint16_t*>(args->input);
      current->wire.assign(bytes, bytes + args->count);
      return current->all_reduce_result;
    };
    bucket_table.count = [](const cohort_host*) noexcept { return uint32_t{2}; };
    bucket_table.get = [](const cohort_host*, uint32_t index) noexcept -> const cohort_bucket* {
      return index < 2 ? &current->buckets[index] : nullptr;
    };
    bucket_table.view = [](const cohort_host*, uint32_t index, int32_t, const char*, cohort_tensor* view) noexcept {
      *view = cohort_tensor{};
      view->data = current->gradients;
      view->name = "";
      view->dtype = current->buckets[index].dtype;
      return COHORT_OK;
    };
    kernels.cast = cast;
    kernel_service.table = [](const cohort_host*, int32_t, const char* id) noexcept -> const void* {
      return std::strcmp(id, COHORT_KERNELS_CORE_ID) == 0 ? &current->kernels : nullptr;
    };
    host.offer(COHORT_COMM_ID, &comm_table);
    host.offer(COHORT_BUCKETS_ID, &bucket_table);
    stream_table.current = [](const cohort_host*, int32_t type, int32_t index, cohort_stream* stream) noexcept {
      *stream = {type == COHORT_DEVICE_CPU ? nullptr : current, type, index};
      return COHORT_OK;
    };
    memory_table.alloc = [](const cohort_host*, int32_t type, int32_t index, uint64_t nbytes, void** memory) noexcept {
      current->allocated_on.emplace_back(type, index);
      *memory = std::malloc(nbytes);
      return COHORT_OK;
    };
    memory_table.release = [](const cohort_host*, void* memory) noexcept {
      std::free(memory);
      return COHORT_OK;
    };
    host.offer(COHORT_KERNELS_ID, &kernel_service);
    host.offer(COHORT_STREAM_ID, &stream_table);
    host.offer(COHORT_MEMORY_ID, &memory_table);
  }

  static cohort_bucket make_bucket(uint32_t index, int32_t dtype, uint64_t numel, uint64_t nbytes) {
    cohort_bucket bucket{};
    bucket.struct_size = sizeof bucket;
    bucket.index = index;
    bucket.numel = numel;
    bucket.nbytes = nbytes;
    bucket.dtype = dtype;
    bucket.device_type = COHORT_DEVICE_CPU;
    return bucket;
  }

  static cohort_status cast(cohort_accelerator*, void* out, int32_t out_dtype, const void* in, int32_t in_dtype,
                            uint64_t n, const cohort_stream*) noexcept {
    for (uint64_t i = 0; i < n; ++i) {
      if (in_dtype == COHORT_FLOAT32 && out_dtype == COHORT_BFLOAT16) {
        static_cast<uint16_t*>(out)[i] = cohort::sdk::to_bfloat16(static_cast<const float*>(in)[i]).bits;
      } else if (in_dtype == COHORT_BFLOAT16 && out_dtype == COHORT_FLOAT32) {
        static_cast<float*>(out)[i] = cohort::sdk::to_float(cohort::sdk::BFloat16{static_cast<const uint16_t*>(in)[i]});
      } else {
        return COHORT_INVALID_ARGUMENT;
      }
    }
    return COHORT_OK;
  }

  static constexpr int32_t kAlone = 41;      // a role whose group is this rank
  static inline FakeJob* current = nullptr;  // the tables' functions get no pointer of ours
  cohort_comm world;
  cohort_comm alone{sizeof(cohort_comm), 0, 1, 0, nullptr, nullptr};
  cohort_bucket buckets[2];
  float gradients[3] = {1.0f, 1.00390625f, -3.0f};
  cohort_comm_1 comm_table{};
  cohort_buckets_1 bucket_table{};
  cohort_kernels_core_1 kernels{};
  cohort_kernels_1 kernel_service{};
  cohort_status all_reduce_result = COHORT_OK;
  cohort_stream_1 stream_table{};
  cohort_memory_1 memory_table{};
  std::vector<std::pair<int32_t, int32_t>> allocated_on;  // type and index
  std::vector<int32_t> asked_roles;
  std::vector<cohort_op_args> reduced;
  std::vector<uint16_t> wire;
};

class Ddp : public testing::Test {
 protected:
  Ddp() : layer(vtable(), base, host.raw()) {}

  static const cohort_component& component() {
    return component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_STRATEGY);
  }
  static const cohort_strategy_vt& vtable() { return *static_cast<const cohort_strategy_vt*>(component().vtable); }

  // With the values of the table's defaults, sizes in bytes as a host gives them.
  void create(std::map<std::string, std::string> changed = {}) {
    std::map<std::string, std::string> all{{"compression", "none"}, {"bucket_size", "0"}, {"first_bucket_size", "0"}};
    for (auto& [key, value] : changed) all[key] = value;
    std::vector<cohort_key_value> options;
    for (auto& [key, value] : all) options.push_back({key.c_str(), value.c_str()});
    ASSERT_EQ(layer.create("", options), COHORT_OK);
  }
  cohort_bucket_plan planned() {
    cohort_bucket_plan plan{sizeof plan, 0, 0, 0, 1};
    EXPECT_EQ(layer.vt().plan_buckets(layer.get(), &plan), COHORT_OK);
    return plan;
  }
  cohort_status make_ready() { return layer.vt().layout_ready(layer.get(), COHORT_LAYOUT_NEW); }
  cohort_status reduce(const cohort_bucket& bucket) {
    const cohort_step step{};
    return layer.vt().reduce_bucket(layer.get(), &step, &bucket);
  }

  FakeHost host;
  RecordingBase base;
  LayerOver layer;
};

TEST_F(Ddp, DeclaresItsOptions) {
  ASSERT_EQ(component().num_options, 3u);
  EXPECT_STREQ(component().options[0].default_value, "none");
  EXPECT_STREQ(component().options[1].default_value, "0");
  EXPECT_STREQ(component().options[2].default_value, "0");
}

TEST_F(Ddp, LeavesTheInheritedLayoutAndAllReduceAloneByDefault) {
  FakeJob job(host, 2);
  create();
  EXPECT_EQ(planned().size, 0u);
  EXPECT_EQ(planned().flags, 0u);
  ASSERT_EQ(make_ready(), COHORT_OK);
  ASSERT_EQ(reduce(job.buckets[0]), COHORT_OK);
  EXPECT_THAT(base.calls, ElementsAre("plan_buckets", "plan_buckets", "layout_ready", "reduce_bucket"));
  EXPECT_TRUE(job.reduced.empty());
}

// A host that spreads a model over ranks has other groups for some of the buckets.
TEST_F(Ddp, AveragesOverTheRanksOfTheBucket) {
  constexpr int32_t kRole = 40;
  FakeJob job(host, 2);
  create({{"compression", "bf16"}});
  planned();
  ASSERT_EQ(make_ready(), COHORT_OK);
  job.buckets[0].role = kRole;
  job.asked_roles.clear();
  ASSERT_EQ(reduce(job.buckets[0]), COHORT_OK);
  EXPECT_EQ(job.reduced.size(), 1u);
  EXPECT_THAT(job.asked_roles, AllOf(Contains(kRole), Each(kRole)));
}

TEST_F(Ddp, CastsNoBucketOfOneRank) {
  FakeJob job(host, 2);
  job.buckets[0].role = FakeJob::kAlone;
  create({{"compression", "bf16"}});
  ASSERT_EQ(make_ready(), COHORT_OK);
  ASSERT_EQ(reduce(job.buckets[0]), COHORT_OK);
  EXPECT_TRUE(job.allocated_on.empty());
  EXPECT_THAT(base.calls, ElementsAre("layout_ready", "reduce_bucket"));
}

TEST_F(Ddp, PlansBucketsOfTheSizesThatAreGiven) {
  FakeJob job(host, 2);
  create({{"bucket_size", "1000"}, {"first_bucket_size", "100"}});
  const cohort_bucket_plan plan = planned();
  EXPECT_EQ(plan.size, 1000u);
  EXPECT_EQ(plan.first_size, 100u);
  EXPECT_EQ(plan.alignment, 1u);
}

TEST_F(Ddp, CommunicatesNothingOnOneRank) {
  FakeJob job(host, 1);
  create({{"bucket_size", "1000"}, {"compression", "bf16"}});
  ASSERT_EQ(make_ready(), COHORT_OK);
  ASSERT_EQ(reduce(job.buckets[0]), COHORT_OK);
  EXPECT_THAT(base.calls, ElementsAre("layout_ready", "reduce_bucket"));
}

TEST_F(Ddp, SendsCompressedGradientsAndWritesThemBack) {
  FakeJob job(host, 2);
  create({{"compression", "bf16"}});
  ASSERT_EQ(make_ready(), COHORT_OK);
  ASSERT_EQ(reduce(job.buckets[0]), COHORT_OK);
  ASSERT_EQ(job.reduced.size(), 1u);
  EXPECT_EQ(job.reduced[0].dtype, COHORT_BFLOAT16);
  EXPECT_EQ(job.reduced[0].reduce, COHORT_REDUCE_MEAN);
  EXPECT_EQ(job.reduced[0].count, 3u);
  EXPECT_THAT(job.wire, ElementsAre(0x3f80, 0x3f80, 0xc040));
  EXPECT_THAT(job.gradients, ElementsAre(1.0f, 1.0f, -3.0f));
  EXPECT_THAT(base.calls, ElementsAre("layout_ready"));
}

TEST_F(Ddp, SendsBucketsThatAreNarrowAlreadyAsTheyAre) {
  FakeJob job(host, 2);
  create({{"compression", "fp16"}});
  ASSERT_EQ(make_ready(), COHORT_OK);
  ASSERT_EQ(reduce(job.buckets[1]), COHORT_OK);
  EXPECT_TRUE(job.reduced.empty());
  EXPECT_THAT(base.calls, ElementsAre("layout_ready", "reduce_bucket"));
}

TEST_F(Ddp, StopsWhereTheAllReduceFails) {
  FakeJob job(host, 2);
  job.all_reduce_result = COHORT_UNAVAILABLE;
  create({{"compression", "bf16"}});
  ASSERT_EQ(make_ready(), COHORT_OK);
  EXPECT_EQ(reduce(job.buckets[0]), COHORT_UNAVAILABLE);
  EXPECT_EQ(job.gradients[1], 1.00390625f);
}

TEST_F(Ddp, CompressesInMemoryOfTheBucketsDevice) {
  FakeJob job(host, 2);
  create({{"compression", "bf16"}});
  job.buckets[0].device_type = COHORT_DEVICE_EXT;
  job.buckets[0].device_index = 1;
  ASSERT_EQ(make_ready(), COHORT_OK);
  EXPECT_THAT(job.allocated_on, ElementsAre(std::pair(COHORT_DEVICE_EXT, 1)));
  ASSERT_EQ(reduce(job.buckets[0]), COHORT_OK);
  ASSERT_EQ(job.reduced.size(), 1u);
  EXPECT_EQ(job.reduced[0].stream.native, &job);
  EXPECT_EQ(job.reduced[0].stream.device_type, COHORT_DEVICE_EXT);
  EXPECT_EQ(job.reduced[0].stream.device_index, 1);
  EXPECT_THAT(job.wire, ElementsAre(0x3f80, 0x3f80, 0xc040)) << "the CPU's kernels stand for the device's";
}

}  // namespace
