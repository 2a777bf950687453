// Batches on their way to the fake device, whose streams are lazy: what nobody has waited for has not been copied.
#include "data/device_copy.hpp"

#include <cohort/data.hpp>

#include "backend.hpp"
#include "data/batch_source.hpp"

namespace cohort {
namespace {

using fake::device;
using fake::guard;

fakedrv_stream* handle_of(c10::Stream stream) {
  return static_cast<fakedrv_stream*>(guard().getStreamNativeHandle(stream));
}

/// A place in a stream's order, which tells whether work before it has run without running any.
class Place {
 public:
  explicit Place(c10::Stream stream) {
    fakedrv_create_event(&event_);
    fakedrv_record(event_, handle_of(stream));
  }
  ~Place() { fakedrv_destroy_event(event_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool is_reached() const { return fakedrv_event_is_done(event_) != 0; }
  void run_to() const { fakedrv_run_to_event(event_); }

 private:
  fakedrv_event* event_ = nullptr;
};

class BatchesOnDevices : public testing::Test {
 protected:
  static void SetUpTestSuite() { fake::open_backend(); }
  void SetUp() override {
    torch::manual_seed(1);
    races_before_ = fakedrv_num_races();
  }
  void TearDown() override {
    fake::wait();
    EXPECT_EQ(fakedrv_num_races(), races_before_);
  }
  c10::Stream current() const { return guard().getStream(device()); }
  const c10::Stream copies_ = make_copy_stream(device());

 private:
  uint64_t races_before_ = 0;
};

TEST_F(BatchesOnDevices, ArePinnedOnlyWhereTheyLieInOrdinaryMemory) {
  const torch::Tensor ordinary = torch::randn({3, 2}), on_device = torch::ones({2}, device());
  const torch::Tensor pinned_before = torch::randn({2}).pin_memory();
  const Batch batch = Value::map({{"x", ordinary}, {"rest", Value::list({on_device, pinned_before, Value()})}});
  const Batch result = pinned(batch, device());
  EXPECT_TRUE(result["x"].tensor().is_pinned());
  EXPECT_TRUE(torch::equal(result["x"].tensor(), ordinary));
  EXPECT_TRUE(result["rest"][0].tensor().is_same(on_device));
  EXPECT_TRUE(result["rest"][1].tensor().is_same(pinned_before));
  EXPECT_TRUE(result["rest"][2].empty());
}

TEST_F(BatchesOnDevices, StayWhereTheyAreForTheCpu) {
  const torch::Tensor ordinary = torch::randn({3});
  EXPECT_TRUE(pinned(ordinary, torch::kCPU).tensor().is_same(ordinary));
}

TEST_F(BatchesOnDevices, ArePinnedAheadByThePrefetchingThread) {
  const Loader loader{
      .dataset = std::make_shared<TensorDataset>(std::vector{torch::arange(6)}), .batch_size = 2, .prefetch = true};
  const auto source = open_batches(loader, {}, Purpose::kTraining, {}, "training data", {.batches = 1}, {device()});
  const Batch batch = source->next();
  EXPECT_TRUE(batch.tensor().is_pinned());
  EXPECT_TRUE(torch::equal(batch.tensor(), torch::tensor({2, 3})));
}

TEST_F(BatchesOnDevices, AreCopiedWhileTheStepBeforeRuns) {
  const torch::Tensor x = torch::randn({4, 3});
  const torch::Tensor weights = torch::ones({3}, device()).mul_(2);  // the step before, which has not run
  const Place step_before(current());
  const uint64_t waits_before = fakedrv_num_waits();
  const Batch batch = copied_on(copies_, pinned(x, device()));
  Place(copies_).run_to();
  EXPECT_FALSE(step_before.is_reached());
  const torch::Tensor result = batch.tensor() * weights;
  EXPECT_EQ(fakedrv_num_waits(), waits_before);
  EXPECT_TRUE(torch::equal(result.cpu(), x * 2));
}

TEST_F(BatchesOnDevices, OfOrdinaryMemoryMayChangeAtOnce) {
  torch::Tensor x = torch::ones({5});
  const Batch batch = copied_on(copies_, x);
  x.zero_();
  EXPECT_TRUE(torch::equal(batch.tensor().cpu(), torch::ones({5})));
}

TEST_F(BatchesOnDevices, KeepTheirMemoryUntilTheStepHasUsedThem) {
  std::vector<torch::Tensor> sums;
  for (int step = 0; step < 4; ++step) {
    const Batch batch = copied_on(copies_, pinned(torch::full({256}, step), device()));
    sums.push_back(batch.tensor().sum());  // runs much later; the next copy may want the same memory
  }
  for (int step = 0; step < 4; ++step) EXPECT_EQ(sums[static_cast<size_t>(step)].item<int64_t>(), 256 * step);
}

TEST_F(BatchesOnDevices, OfAnotherDeviceFollowTheCurrentStream) {
  const torch::Tensor x = torch::randn({3}, device(1)).mul_(2);
  const Batch batch = copied_on(copies_, x);
  EXPECT_EQ(batch.tensor().device(), device(0));
  EXPECT_TRUE(torch::equal(batch.tensor().cpu(), x.cpu()));
}

}  // namespace
}  // namespace cohort
