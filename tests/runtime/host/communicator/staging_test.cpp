// Device memory on a collective of host memory. Touching a device pointer on the host ends the test program.
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>
#include <cohort/host/store.hpp>
#include <cohort/sdk/dtype.hpp>

#include "fake_device.hpp"
#include "in_process.hpp"
#include "reductions.hpp"
#include "thread_wire.hpp"

namespace cohort::host {
namespace {

using test::Bytes;
using test::DeviceMemory;
using test::op_of;
using test::Reduction;
using testing::HasSubstr;

PluginSearch both_folders() {
  PluginSearch search;
  search.directories = {COHORT_TEST_PLUGINS, TEST_PLUGIN_FOLDER};
  return search;
}

struct Device {
  Device(PluginHost& plugins, HostObject& host) {
    const cohort_component& component = plugins.open(Kind::kAccelerator, "device");
    object = {sizeof object, 0, static_cast<const cohort_accelerator_vt*>(component.vtable), nullptr, host.get()};
    host.check(object.vt->create(&object, nullptr, 0), "create");
  }
  ~Device() { object.vt->destroy(&object); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  cohort_accelerator object{};
};

// A rank of shm with the accelerator `device` at hand.
class StagedRank {
 public:
  StagedRank(PluginHost& plugins, cohort_store* store, int rank, int size)
      : log_(silence()), host_(log_), device_(plugins, host_), comms_(plugins, host_, {Spec("shm")}, &device_.object) {
    cohort_connect_args group{};
    group.struct_size = sizeof group;
    group.rank = rank;
    group.size = size;
    group.device_type = DeviceMemory::kDeviceType;
    group.timeout_ns = std::chrono::nanoseconds(std::chrono::seconds(20)).count();
    group.store = store;
    group.name = "test";
    comm_ = comms_.open(nullptr, group);
  }

  int rank() const { return comm_->rank; }
  int size() const { return comm_->size; }
  cohort_comm* comm() { return comm_; }
  const cohort_collective_vt& table() { return *comm_->collective->vt; }

  void run(decltype(cohort_collective_vt::all_reduce) operation, cohort_op_args args) {
    args.struct_size = sizeof args;
    args.stream.device_type = DeviceMemory::kDeviceType;
    host_.check(operation(comm_->collective, comm_, &args), "operation");
  }

 private:
  Log log_;
  HostObject host_;
  Device device_;
  CommunicatorSet comms_;
  cohort_comm* comm_;
};

void on_staged(int size, const std::function<void(StagedRank&)>& body) {
  Log log(silence());
  PluginHost plugins(both_folders(), log);
  test::MemoryStore store;
  test::run_as_threads(size, [&](int rank) {
    StagedRank one(plugins, store.handle(), rank, size);
    body(one);
  });
}

// Device memory that holds some bytes, or is to hold as many.
struct Tensor {
  explicit Tensor(const Bytes& bytes) : Tensor(bytes.size()) {
    if (!bytes.empty()) std::memcpy(memory.contents(), bytes.data(), bytes.size());
  }
  explicit Tensor(size_t size) : memory(size), nbytes(size) {}
  void* device() const { return memory.device(); }
  Bytes bytes() const { return Bytes(memory.contents(), memory.contents() + nbytes); }

  DeviceMemory memory;
  size_t nbytes;
};

// Nothing, little, about one chunk of 2 MiB, several with a rest.
const std::vector<Reduction> kReductions{{COHORT_FLOAT32, COHORT_REDUCE_SUM, 0},
                                         {COHORT_INT8, COHORT_REDUCE_MAX, 5},
                                         {COHORT_FLOAT32, COHORT_REDUCE_MEAN, 1 << 19},
                                         {COHORT_FLOAT64, COHORT_REDUCE_SUM, (1 << 18) + 1},
                                         {COHORT_BFLOAT16, COHORT_REDUCE_SUM, 2200001}};

TEST(Staging, ReducesDeviceMemoryInAndOutOfPlace) {
  on_staged(3, [](StagedRank& rank) {
    for (const Reduction& c : kReductions) {
      const Bytes given = test::input_of(c, rank.rank());
      const Bytes wanted = test::result_of(c, rank.size());
      const Tensor input(given), output(given.size()), other(given);
      rank.run(rank.table().all_reduce, op_of(c, input.device(), output.device()));
      EXPECT_TRUE(output.bytes() == wanted) << text_of(c);
      EXPECT_TRUE(input.bytes() == given) << text_of(c);
      rank.run(rank.table().all_reduce, op_of(c, input.device(), input.device()));
      EXPECT_TRUE(input.bytes() == wanted) << text_of(c) << " in place";
      cohort_op_args args = op_of(c, other.device(), rank.rank() == 1 ? output.device() : nullptr);
      args.root = 1;
      std::memset(output.memory.contents(), 0, output.nbytes);
      rank.run(rank.table().reduce, args);
      EXPECT_TRUE(output.bytes() == (rank.rank() == 1 ? wanted : Bytes(given.size()))) << text_of(c) << " to a root";
    }
  });
}

TEST(Staging, ScattersAndGathersPieces) {
  on_staged(3, [](StagedRank& rank) {
    for (const std::vector<uint64_t>& counts :
         {std::vector<uint64_t>{200000, 200000, 200000}, std::vector<uint64_t>{0, 450001, 7}}) {
      const bool is_even = counts[0] == counts[2];
      const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
      const Reduction c{COHORT_FLOAT32, COHORT_REDUCE_SUM, total};
      const Bytes wanted = test::result_of(c, rank.size());
      const uint64_t first = std::accumulate(counts.begin(), counts.begin() + rank.rank(), uint64_t{0}) * 4;
      const uint64_t own = counts[static_cast<size_t>(rank.rank())] * 4;
      const Bytes piece(wanted.data() + first, wanted.data() + first + own);
      const Tensor input(test::input_of(c, rank.rank())), output(own), whole(wanted.size());
      cohort_op_args args = op_of(c, input.device(), output.device());
      args.count = is_even ? counts[0] : 0;
      args.counts = is_even ? nullptr : counts.data();
      rank.run(rank.table().reduce_scatter, args);
      EXPECT_TRUE(output.bytes() == piece);
      args.input = output.device();
      args.output = whole.device();
      rank.run(rank.table().all_gather, args);
      EXPECT_TRUE(whole.bytes() == wanted) << "gathered";
      std::memset(whole.memory.contents(), 0, whole.nbytes);
      if (own > 0) std::memcpy(whole.memory.contents() + first, piece.data(), own);
      args.input = whole.memory.device() + first;
      rank.run(rank.table().all_gather, args);
      EXPECT_TRUE(whole.bytes() == wanted) << "gathered in place";
    }
  });
}

TEST(Staging, BroadcastsFromTheRoot) {
  on_staged(2, [](StagedRank& rank) {
    const Bytes wanted = test::random_elements(COHORT_FLOAT32, 700003, 5);
    const Tensor input(rank.rank() == 1 ? wanted : Bytes(wanted.size())), output(wanted.size());
    cohort_op_args args = op_of({COHORT_FLOAT32, 0, 700003}, input.device(), output.device());
    args.root = 1;
    rank.run(rank.table().broadcast, args);
    EXPECT_TRUE(output.bytes() == wanted);
    args.output = input.device();
    rank.run(rank.table().broadcast, args);
    EXPECT_TRUE(input.bytes() == wanted) << "in place";
  });
}

TEST(Staging, TransposesPiecesWhoseSizesOnlyTheirPairKnows) {
  on_staged(2, [](StagedRank& rank) {
    // Rank 0 gives rank 1 many elements, and gets one.
    const std::vector<uint64_t> from0{2, 700000}, from1{1, 5};
    const Bytes all0 = test::random_elements(COHORT_FLOAT32, 700002, 1),
                all1 = test::random_elements(COHORT_FLOAT32, 6, 2);
    const bool is_first = rank.rank() == 0;
    Bytes wanted(is_first ? all0.begin() : all0.begin() + 8, is_first ? all0.begin() + 8 : all0.end());
    wanted.insert(wanted.end(), is_first ? all1.begin() : all1.begin() + 4, is_first ? all1.begin() + 4 : all1.end());
    const std::vector<uint64_t> got = is_first ? std::vector<uint64_t>{2, 1} : std::vector<uint64_t>{700000, 5};
    const Tensor input(is_first ? all0 : all1), output(wanted.size());
    cohort_op_args args = op_of({COHORT_FLOAT32, 0, 0}, input.device(), output.device());
    args.counts = is_first ? from0.data() : from1.data();
    args.recv_counts = got.data();
    rank.run(rank.table().all_to_all, args);
    EXPECT_TRUE(output.bytes() == wanted);
  });
}

TEST(Staging, ExchangesMessagesOfDeviceMemory) {
  on_staged(3, [](StagedRank& rank) {
    const int right = (rank.rank() + 1) % 3, left = (rank.rank() + 2) % 3;
    const Tensor out(test::random_elements(COHORT_INT32, 70001, rank.rank())), in(out.nbytes), empty(size_t{0});
    const cohort_message messages[]{{out.device(), out.nbytes, right, 1},
                                    {in.device(), in.nbytes, left, 0},
                                    {empty.device(), 0, right, 1},
                                    {empty.device(), 0, left, 0}};
    cohort_exchange_args args{sizeof args, 0, messages, 4, {nullptr, DeviceMemory::kDeviceType, 0}};
    ASSERT_EQ(rank.table().exchange(rank.comm()->collective, rank.comm(), &args), COHORT_OK);
    EXPECT_TRUE(in.bytes() == test::random_elements(COHORT_INT32, 70001, left));
  });
}

TEST(Staging, LeavesHostMemoryToTheCollectiveAndOffersNoMemoryOfIts) {
  on_staged(2, [](StagedRank& rank) {
    float value = 1;
    cohort_op_args args = op_of({COHORT_FLOAT32, COHORT_REDUCE_SUM, 1}, &value, &value);
    args.struct_size = sizeof args;
    args.stream.device_type = COHORT_DEVICE_CPU;
    ASSERT_EQ(rank.table().all_reduce(rank.comm()->collective, rank.comm(), &args), COHORT_OK);
    EXPECT_EQ(value, 2.0f);
    EXPECT_EQ(rank.table().alloc, nullptr);
  });
}

TEST(Staging, ShowsTheErrorOfTheOperation) {
  on_staged(2, [](StagedRank& rank) {
    const Tensor data(size_t{40});
    const cohort_op_args args = op_of({COHORT_FLOAT32, COHORT_REDUCE_BIT_OR, 10}, data.device(), data.device());
    try {
      rank.run(rank.table().all_reduce, args);
      FAIL() << "the bit-or of floats was taken";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("float32"));
    }
  });
}

// Takes so many sums, and refuses the next one.
struct TakesComm : test::ThreadWireComm {
  static inline int sums = 0;
  using ThreadWireComm::ThreadWireComm;
  void all_reduce(const cohort_op_args&) {
    if (sums-- == 0) throw sdk::invalid_argument("this sum is refused");
  }
};
struct Takes : sdk::Collective<Takes, TakesComm> {
  std::unique_ptr<TakesComm> connect(const cohort_connect_args& args) { return test::connect_threads<TakesComm>(args); }
};
constexpr cohort_component kTakes = sdk::collective<Takes>("takes", "refuses a sum");

TEST(Staging, FailsIfALaterChunkIsRefused) {
  constexpr uint64_t kCount = 2200001;  // three chunks
  const Tensor data(kCount * sizeof(float));
  const auto status_after = [&](int sums) {
    TakesComm::sums = sums;
    Log log(silence());
    PluginHost plugins(both_folders(), log);
    HostObject host(log);
    Device device(plugins, host);
    test::MemoryStore store;
    InProcessRank rank(kTakes, store.handle(), 0, 1,
                       {.door = nullptr, .moves = Moves::kCpuMemory, .device = &device.object});
    cohort_op_args args = op_of({COHORT_FLOAT32, COHORT_REDUCE_SUM, kCount}, data.device(), data.device());
    args.stream.device_type = DeviceMemory::kDeviceType;
    return test::failure_of([&] { rank.run(rank.table().all_reduce, args); });
  };
  EXPECT_EQ(status_after(0).status(), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(status_after(1).status(), COHORT_INTERNAL);
  EXPECT_THAT(status_after(1).what(), HasSubstr("this sum is refused"));
}

// The accelerator ends the program if memory is freed that a copy is still to use, at the latest with the rank.
TEST(Staging, KeepsItsMemoryUntilCopiesOfAFailedCallAreDone) {
  on_staged(2, [](StagedRank& rank) {
    const int peer = 1 - rank.rank();
    const Tensor first(size_t{40}), refused(DeviceMemory::kRefusedBytes);
    const cohort_message messages[]{{first.device(), first.nbytes, peer, 1},
                                    {refused.device(), refused.nbytes, peer, 1}};
    const cohort_exchange_args args{sizeof args, 0, messages, 2, {nullptr, DeviceMemory::kDeviceType, 0}};
    EXPECT_EQ(rank.table().exchange(rank.comm()->collective, rank.comm(), &args), COHORT_INTERNAL);
  });
}

TEST(Staging, NeedsAnAcceleratorWithPinnedMemory) {
  Log log(silence());
  PluginHost plugins(both_folders(), log);
  HostObject host(log);
  cohort_accelerator_vt bare{};
  cohort_accelerator accelerator{sizeof accelerator, 0, &bare, nullptr, host.get()};
  CommunicatorSet comms(plugins, host, {Spec("shm")}, &accelerator);
  test::MemoryStore store;
  cohort_connect_args group{};
  group.struct_size = sizeof group;
  group.size = 1;
  group.timeout_ns = 1;
  group.device_type = DeviceMemory::kDeviceType;
  group.store = store.handle();
  group.name = "test";
  try {
    comms.open(nullptr, group);
    FAIL() << "opened";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("pinned memory"));
  }
}

}  // namespace
}  // namespace cohort::host
