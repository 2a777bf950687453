#include <cohort/sdk/collective.hpp>

#include <string>

#include <gtest/gtest.h>

#include <cohort/sdk/accelerator.hpp>

#include "fake_host.hpp"

namespace {

using cohort::test::FakeHost;

struct LoneComm final : cohort::sdk::Communicator<LoneComm> {
  explicit LoneComm(int& closed) : closed_(closed) {}
  ~LoneComm() { ++closed_; }
  int rank() const { return 0; }
  int size() const { return 1; }
  void exchange(cohort::sdk::Span<const cohort_message> messages, const cohort_stream&) { seen_ = messages.size(); }
  std::unique_ptr<LoneComm> split(int32_t color, int32_t) {
    return color < 0 ? nullptr : std::make_unique<LoneComm>(closed_);
  }
  void barrier() { throw cohort::sdk::Error(COHORT_UNAVAILABLE, "nobody is here"); }

  int& closed_;
  std::size_t seen_ = 0;
};

struct Lone final : cohort::sdk::Collective<Lone, LoneComm> {
  std::unique_ptr<LoneComm> connect(const cohort_connect_args& args) {
    if (args.size != 1) throw cohort::sdk::invalid_argument("lone connects one rank");
    return std::make_unique<LoneComm>(closed);
  }
  const void* get_extension(const char* id) { return std::string(id) == "mine/1" ? this : nullptr; }
  int closed = 0;
};

constexpr cohort_component kLone = cohort::sdk::collective<Lone>("lone", "one rank");
const auto& kTable = *static_cast<const cohort_collective_vt*>(kLone.vtable);

struct Collective {
  Collective() { EXPECT_EQ(kTable.create(&object, nullptr, 0), COHORT_OK); }
  ~Collective() { kTable.destroy(&object); }
  FakeHost host;
  cohort_collective object{sizeof object, 0, &kTable, nullptr, host.raw()};
};

cohort_connect_args args_for(int32_t size) {
  cohort_connect_args args{};
  args.struct_size = sizeof args;
  args.size = size;
  return args;
}

TEST(SdkCollective, GivesItsExtensions) {
  Collective collective;
  EXPECT_EQ(kTable.get_extension(&collective.object, "mine/1"), collective.object.data);
  EXPECT_EQ(kTable.get_extension(&collective.object, "mine/2"), nullptr);
}

TEST(SdkCollective, LeavesOperationsNullThatTheHostComposes) {
  EXPECT_NE(kTable.exchange, nullptr);
  EXPECT_NE(kTable.split, nullptr);
  EXPECT_NE(kTable.barrier, nullptr);
  EXPECT_EQ(kTable.async_error, nullptr);
  EXPECT_EQ(kTable.all_reduce, nullptr);
  EXPECT_EQ(kTable.reduce, nullptr);
  EXPECT_EQ(kTable.reduce_scatter, nullptr);
  EXPECT_EQ(kTable.all_to_all, nullptr);
  EXPECT_EQ(kTable.release, nullptr);
  EXPECT_EQ(kTable.broadcast, nullptr);
  EXPECT_EQ(kTable.all_gather, nullptr);
  EXPECT_EQ(kTable.alloc, nullptr);
  EXPECT_EQ(kTable.abort, nullptr);
}

TEST(SdkCollective, OwnsACommunicatorUntilClose) {
  Collective collective;
  const auto args = args_for(1);
  cohort_comm comm{};
  ASSERT_EQ(kTable.connect(&collective.object, &args, &comm), COHORT_OK);
  EXPECT_EQ(comm.size, 1);
  EXPECT_EQ(comm.collective, &collective.object);
  cohort_exchange_args exchange{};
  EXPECT_EQ(kTable.exchange(&collective.object, &comm, &exchange), COHORT_OK);
  kTable.close(&collective.object, &comm);
  EXPECT_EQ(comm.data, nullptr);
  EXPECT_EQ(static_cast<Lone*>(collective.object.data)->closed, 1);
}

TEST(SdkCollective, LeavesThePartEmptyForARankWithoutOne) {
  Collective collective;
  const auto args = args_for(1);
  cohort_comm comm{};
  ASSERT_EQ(kTable.connect(&collective.object, &args, &comm), COHORT_OK);
  cohort_comm none{};
  EXPECT_EQ(kTable.split(&collective.object, &comm, -1, 0, &none), COHORT_OK);
  EXPECT_EQ(none.data, nullptr);
  cohort_comm part{};
  EXPECT_EQ(kTable.split(&collective.object, &comm, 0, 0, &part), COHORT_OK);
  ASSERT_NE(part.data, nullptr);
  kTable.close(&collective.object, &part);
  kTable.close(&collective.object, &comm);
}

TEST(SdkCollective, TurnsExceptionsIntoStatusAndMessage) {
  Collective collective;
  cohort_comm comm{};
  const auto two = args_for(2);
  EXPECT_EQ(kTable.connect(&collective.object, &two, &comm), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(comm.data, nullptr);
  EXPECT_EQ(collective.host.take_failure(), "lone connects one rank");
  const auto one = args_for(1);
  ASSERT_EQ(kTable.connect(&collective.object, &one, &comm), COHORT_OK);
  EXPECT_EQ(kTable.barrier(&collective.object, &comm), COHORT_UNAVAILABLE);
  kTable.close(&collective.object, &comm);
}

struct Two final : cohort::sdk::Accelerator<Two> {
  static constexpr int32_t kDeviceType = 12;
  static constexpr const char* kTorchDeviceType = "privateuseone";
  int32_t device_count() { return 2; }
  void select(int32_t index) {
    if (index > 1) throw cohort::sdk::invalid_argument("there are two");
  }
  const void* get_extension(const char* id) { return std::string(id) == "mine/1" ? this : nullptr; }
};

TEST(SdkAccelerator, FillsTheTableFromTheClass) {
  constexpr cohort_component kTwo = cohort::sdk::accelerator<Two>("two", "two devices");
  const auto& vt = *static_cast<const cohort_accelerator_vt*>(kTwo.vtable);
  EXPECT_EQ(vt.device_type, 12);
  EXPECT_STREQ(vt.torch_device_type, "privateuseone");
  EXPECT_EQ(vt.kernels, nullptr);
  EXPECT_EQ(vt.device_info, nullptr);
  EXPECT_EQ(vt.alloc_pinned, nullptr);
  EXPECT_EQ(vt.copy_to_host, nullptr);
  EXPECT_EQ(vt.torch_library, nullptr);
  FakeHost host;
  cohort_accelerator accelerator{sizeof accelerator, 0, &vt, nullptr, host.raw()};
  ASSERT_EQ(vt.create(&accelerator, nullptr, 0), COHORT_OK);
  int32_t count = 0;
  EXPECT_EQ(vt.device_count(&accelerator, &count), COHORT_OK);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(vt.get_extension(&accelerator, "mine/1"), accelerator.data);
  EXPECT_EQ(vt.get_extension(&accelerator, "mine/2"), nullptr);
  EXPECT_EQ(vt.select(&accelerator, 2), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(host.take_failure(), "there are two");
  vt.destroy(&accelerator);
}

}  // namespace
