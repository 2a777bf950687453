// nccl where there is no NCCL: LD_LIBRARY_PATH names a folder whose libnccl.so.2 is none.
#include <cstring>
#include <string>

#include <gmock/gmock.h>

#include <cohort/api/plugin.h>
#include <cohort/api/tensor.h>

#include "cuda_api.h"
#include "nccl_api.h"
#include "nccl_api_checks.hpp"
#include "plugin_file.hpp"

namespace {

using testing::HasSubstr;

cohort_query asked_about(int64_t device_type) {
  static const cohort_plugin& plugin = cohort::test::open_plugin(COHORT_TEST_PLUGIN);
  cohort_query query{};
  query.struct_size = sizeof query;
  query.use = COHORT_USE_DEVICE_TYPE;
  query.value = device_type;
  query.variant = query.below_spec = "";
  cohort::test::component_of(plugin, COHORT_KIND_COLLECTIVE).supports(nullptr, &query);
  return query;
}

TEST(NcclPlugin, RefusesGpusWhereNcclIsNotInstalled) {
  const cohort_query query = asked_about(COHORT_DEVICE_CUDA);
  EXPECT_EQ(query.answer, COHORT_ANSWER_NO);
  EXPECT_THAT(query.why, HasSubstr("NCCL is not installed (libnccl.so.2)"));
  EXPECT_THAT(query.fix, HasSubstr("--collective=shm or gloo"));
}

TEST(NcclPlugin, RefusesMemoryOfTheHostAndOfOtherDevices) {
  EXPECT_THAT(asked_about(COHORT_DEVICE_CPU).why, HasSubstr("memory of GPUs only"));
  EXPECT_THAT(asked_about(COHORT_DEVICE_EXT).why, HasSubstr("NVIDIA's GPUs only"));
}

}  // namespace
