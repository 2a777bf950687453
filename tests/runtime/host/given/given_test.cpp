// Structs of plugins that know fewer or more fields than the host, and what cannot be read at all.
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "given/given_args.hpp"

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What these headers know of a struct, and more.
template <class T>
struct Longer {
  T known{};
  uint64_t more = 0;

  Longer() { known.struct_size = sizeof(Longer); }
};

template <class Check>
std::string refusal(Check&& check) {
  try {
    check();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

cohort_op_args operation() {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.count = 7;
  args.stream.device_type = COHORT_DEVICE_CPU;
  return args;
}

TEST(AGivenStruct, IsReadAsFarAsItGoesAndZeroBehindThat) {
  // Whoever reads beyond the end reads memory that is not there, which sanitizers notice.
  constexpr uint32_t kShort = COHORT_END(cohort_collective_vt, create);
  const std::unique_ptr<std::byte[]> memory(new std::byte[kShort]);
  cohort_collective_vt whole{};
  whole.struct_size = kShort;
  whole.create = [](auto...) noexcept { return COHORT_OK; };
  std::memcpy(memory.get(), &whole, kShort);
  const auto full = sdk::own_copy(*reinterpret_cast<const cohort_collective_vt*>(memory.get()));
  EXPECT_EQ(full.struct_size, sizeof full);
  EXPECT_EQ(full.create, whole.create);
  EXPECT_EQ(full.connect, nullptr);
  EXPECT_EQ(full.barrier, nullptr);
}

TEST(AGivenStruct, ThatIsLongerIsReadIfTheRestIsZero) {
  Longer<cohort_op_args> args;
  args.known.count = 7;
  const cohort_op_args full = given(args.known);
  EXPECT_EQ(full.struct_size, sizeof full);
  EXPECT_EQ(full.count, 7u);
  args.more = uint64_t{1} << 40;  // its sixth byte
  EXPECT_THAT(refusal([&] { given(args.known); }),
              AllOf(HasSubstr("comm/1 was given what sets byte " + std::to_string(sizeof(cohort_op_args) + 5)),
                    HasSubstr("update cohort, or build the plugin with a COHORT_TARGET_ABI of 0x2 or less")));
}

TEST(AGivenStruct, ThatIsShorterThanEveryVersionIsRefused) {
  for (const uint32_t size : {0u, 8u, COHORT_OP_ARGS_SIZE_1_0 - 8, 5000u, ~0u}) {
    cohort_op_args args = operation();
    args.struct_size = size;
    EXPECT_THAT(refusal([&] { given(args); }),
                HasSubstr("comm/1 was given what has a cohort_op_args of " + std::to_string(size) +
                          " bytes; set its struct_size to sizeof"));
  }
  EXPECT_EQ(given(operation()).count, 7u);
}

TEST(AGivenStruct, HasZeroInItsReservedFields) {
  cohort_exchange_args exchange{};
  exchange.struct_size = sizeof exchange;
  EXPECT_EQ(refusal([&] { given(exchange); }), "");
  exchange.reserved0 = 1;
  EXPECT_THAT(
      refusal([&] { given(exchange); }),
      HasSubstr("comm/1.exchange was given what sets a reserved field of its cohort_exchange_args; set it to 0"));
}

TEST(AnExtension, MayBeMissingAndMustBeWhole) {
  EXPECT_EQ(given(static_cast<const cohort_tunable_1*>(nullptr)), nullptr);
  const char* const settings[] = {"hierarchical=true"};
  cohort_tunable_1 tunable{8, 1, settings, nullptr, [](void*, uint32_t) noexcept { return COHORT_OK; }};
  EXPECT_THAT(refusal([&] { given(&tunable); }),
              HasSubstr("the strategy's extension cohort.tunable/1 has a cohort_tunable_1 of 8 bytes"));
  tunable.struct_size = sizeof tunable;
  EXPECT_EQ(given(&tunable), &tunable);
  tunable.use = nullptr;
  EXPECT_THAT(refusal([&] { given(&tunable); }), HasSubstr("the strategy's extension cohort.tunable/1 lacks"));
}

TEST(AnExtension, MayBeLongerByZeros) {
  const char* const settings[] = {"hierarchical=true"};
  Longer<cohort_tunable_1> tunable;
  tunable.known.count = 1;
  tunable.known.settings = settings;
  tunable.known.use = [](void*, uint32_t) noexcept { return COHORT_OK; };
  EXPECT_EQ(given(&tunable.known), &tunable.known);
  tunable.more = 1;
  EXPECT_THAT(refusal([&] { given(&tunable.known); }),
              HasSubstr("sets byte " + std::to_string(sizeof(cohort_tunable_1)) + " of its cohort_tunable_1"));
  tunable.known.struct_size = COHORT_TUNABLE_SIZE_1_0 - 8;
  EXPECT_THAT(refusal([&] { given(&tunable.known); }), HasSubstr("set its struct_size to sizeof(cohort_tunable_1)"));
}

TEST(AStoreOfAStrategy, HasEveryFunction) {
  const auto ok = [](auto...) noexcept -> cohort_status { return COHORT_OK; };
  cohort_store_vt table{sizeof table, 0, ok, ok, ok, ok, ok, ok, ok};
  cohort_store store{&table, nullptr};
  EXPECT_EQ(refusal([&] { check_store(store); }), "");
  table.count = nullptr;
  EXPECT_THAT(refusal([&] { check_store(store); }),
              HasSubstr("init_dist_connection gave a store that lacks a function"));
  table.count = ok;
  table.struct_size = COHORT_END(cohort_store_vt, remove);
  EXPECT_THAT(refusal([&] { check_store(store); }), HasSubstr("set its struct_size to sizeof(cohort_store_vt)"));
  table.struct_size = sizeof table;
  table.reserved0 = 1;
  EXPECT_THAT(refusal([&] { check_store(store); }), HasSubstr("a store that sets a reserved field"));
  store.vt = nullptr;
  EXPECT_THAT(refusal([&] { check_store(store); }), HasSubstr("a store that has no table"));
}

}  // namespace
}  // namespace cohort::host
