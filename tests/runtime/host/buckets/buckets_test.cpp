#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include <cohort/host/buckets.hpp>
#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

BucketMemory zeroed(Device, uint64_t nbytes) {
  return {std::calloc(1, nbytes), [](void* memory) { std::free(memory); }};
}

std::vector<LayoutParameter> two_parameters() {
  return {{1, "b", 3, COHORT_FLOAT32, 0}, {0, "a", 2, COHORT_FLOAT32, 0}};
}

float* floats(std::byte* data) {
  return reinterpret_cast<float*>(data);
}

TEST(Buckets, ShowAllWantedBuffersWithTheSameLayout) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.want({COHORT_BUCKET_STATE, "peer"});
  buckets.configure(two_parameters(), {.size = 1});
  ASSERT_EQ(buckets.count(), 2u);
  cohort_tensor gradient{}, peer{};
  buckets.open_gradients(1);
  buckets.view(1, COHORT_BUCKET_GRAD, "", gradient);
  buckets.view(1, COHORT_BUCKET_STATE, "peer", peer);
  EXPECT_EQ(gradient.shape[0], 2);
  EXPECT_EQ(gradient.nbytes, peer.nbytes);
  EXPECT_NE(gradient.data, peer.data);
  EXPECT_THROW(buckets.view(1, COHORT_BUCKET_STATE, "other", peer), UserError);
  EXPECT_THROW(buckets.view(2, COHORT_BUCKET_GRAD, "", peer), UserError);
}

TEST(Buckets, ShowGradientsOnlyWhileTheyAreOpen) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure(two_parameters(), {.size = 1000});
  cohort_tensor view{};
  EXPECT_THROW(buckets.view(0, COHORT_BUCKET_GRAD, "", view), UserError);
  buckets.open_gradients(0);
  buckets.view(0, COHORT_BUCKET_GRAD, "", view);
  EXPECT_EQ(view.data, buckets.data(0, COHORT_BUCKET_GRAD));
  buckets.close_gradients(0);
  EXPECT_THROW(buckets.view(0, COHORT_BUCKET_GRAD, "", view), UserError);
}

TEST(Buckets, FindWhatIsWrittenBehindTheirPadding) {
  Buckets buckets(RankDevices(), zeroed, nullptr, /*has_guards=*/true);
  for (const char* name : {"layer/lower", "layer/upper"}) buckets.want({COHORT_BUCKET_STATE, name});
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure(two_parameters(), {.size = 1, .align = 4});
  ASSERT_EQ(buckets.get(1)->numel, 4u) << "two values and padding";
  float* const values = floats(buckets.data(1, COHORT_BUCKET_STATE, "layer/lower"));
  for (int i = 0; i < 4; ++i) values[i] = 1;
  EXPECT_EQ(buckets.damage(), "");
  values[4] = 1;
  EXPECT_EQ(buckets.damage(), "STATE 'layer/lower' of bucket 1");
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure(two_parameters(), {.size = 1000});
  EXPECT_EQ(buckets.damage(), "");
  floats(buckets.data(0, COHORT_BUCKET_GRAD))[buckets.get(0)->numel] = 0;
  EXPECT_EQ(buckets.damage(), "GRAD of bucket 0");
}

TEST(Buckets, HaveNoGuardsUnlessTheyAreAskedFor) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure(two_parameters(), {.size = 1000});
  floats(buckets.data(0, COHORT_BUCKET_GRAD))[buckets.get(0)->numel] = 1;
  EXPECT_EQ(buckets.damage(), "");
}

TEST(Buckets, TakeAtMostTwoBlocksOfMemory) {
  int allocated = 0;
  Buckets buckets(RankDevices(), [&](Device, uint64_t nbytes) {
    ++allocated;
    return zeroed(Device{}, nbytes);
  });
  for (const int32_t kind : {COHORT_BUCKET_GRAD, COHORT_BUCKET_WEIGHT}) buckets.want({kind});
  for (const char* name : {"a", "b"}) buckets.want({COHORT_BUCKET_STATE, name});
  buckets.want({COHORT_BUCKET_OPTIM, "exp_avg"});
  buckets.configure(two_parameters(), {.size = 1});
  EXPECT_EQ(allocated, 2);
}

TEST(Buckets, TakeTwoBlocksOfMemoryOnEachDevice) {
  const Device cpu{}, other{COHORT_DEVICE_CUDA, 1};
  std::vector<Device> allocated;
  Buckets buckets(RankDevices(), [&](Device device, uint64_t nbytes) {
    allocated.push_back(device);
    return zeroed(device, nbytes);
  });
  for (const int32_t kind : {COHORT_BUCKET_GRAD, COHORT_BUCKET_WEIGHT}) buckets.want({kind});
  std::vector<LayoutParameter> order = two_parameters();
  order[0].device = other;
  buckets.configure(order, {.size = 1000});
  EXPECT_EQ(allocated, (std::vector{other, cpu, other, cpu}));
  ASSERT_EQ(buckets.count(), 2u);
  for (uint64_t index = 0; index < 2; ++index) {
    cohort_tensor view{};
    buckets.view(index, COHORT_BUCKET_WEIGHT, "", view);
    EXPECT_EQ((Device{view.device_type, view.device_index}), order[index].device);
    EXPECT_EQ(buckets.get(index)->device_type, view.device_type);
    EXPECT_EQ(view.nbytes, order[index].numel * sizeof(float));
  }
}

TEST(Buckets, GiveEveryBufferMemoryOfItsOwn) {
  Buckets buckets(RankDevices(), zeroed);
  const std::vector<BufferWant> wants{{COHORT_BUCKET_GRAD},
                                      {COHORT_BUCKET_WEIGHT},
                                      {COHORT_BUCKET_STATE, "a/m"},
                                      {COHORT_BUCKET_STATE, "b/m", COHORT_FLOAT64}};
  for (const BufferWant& want : wants) buckets.want(want);
  buckets.configure(two_parameters(), {.size = 1});
  for (uint64_t index = 0; index < 2; ++index) {
    buckets.open_gradients(index);
    for (size_t i = 0; i < wants.size(); ++i) {
      cohort_tensor view{};
      buckets.view(index, wants[i].kind, wants[i].name, view);
      std::memset(view.data, static_cast<int>(i + 10 * index + 1), view.nbytes);
    }
  }
  for (uint64_t index = 0; index < 2; ++index) {
    for (size_t i = 0; i < wants.size(); ++i) {
      cohort_tensor view{};
      buckets.view(index, wants[i].kind, wants[i].name, view);
      const auto* const bytes = static_cast<const unsigned char*>(view.data);
      EXPECT_EQ(bytes[0], i + 10 * index + 1) << wants[i].name;
      EXPECT_EQ(bytes[view.nbytes - 1], i + 10 * index + 1) << wants[i].name;
    }
  }
}

TEST(Buckets, KeepStateOfATypeOfItsOwn) {
  Buckets buckets(RankDevices(), zeroed);
  const BufferWant anchor{COHORT_BUCKET_STATE, "anchor", COHORT_FLOAT64};
  buckets.want(anchor);
  buckets.configure(two_parameters(), {.size = 1000});
  cohort_tensor view{};
  buckets.view(0, COHORT_BUCKET_STATE, "anchor", view);
  EXPECT_EQ(view.dtype, COHORT_FLOAT64);
  EXPECT_EQ(view.nbytes, 5 * sizeof(double));
  static_cast<double*>(view.data)[4] = 0.1;
  const StrategyState::Buckets saved = buckets.state();
  EXPECT_EQ(saved.at("anchor").values.at(0).size(), 2 * sizeof(double));
  buckets.reset();
  buckets.want(anchor);
  buckets.configure(two_parameters(), {.size = 1});
  buckets.view(1, COHORT_BUCKET_STATE, "anchor", view);
  EXPECT_EQ(static_cast<double*>(view.data)[1], 0.1);
  buckets.reset();
  buckets.want({COHORT_BUCKET_STATE, "anchor"});
  EXPECT_THROW(buckets.configure(two_parameters(), {.size = 1}), UserError);
}

TEST(Buckets, RefuseAWantThatDiffersFromAnEarlierOne) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_STATE, "m"});
  buckets.want({COHORT_BUCKET_STATE, "m"});
  EXPECT_THROW(buckets.want({COHORT_BUCKET_STATE, "m", COHORT_FLOAT64}), UserError);
}

TEST(Buckets, HaveNoMemoryForGradientsThatStayWhereBackwardMadeThem) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.want({COHORT_BUCKET_WEIGHT});
  buckets.configure(two_parameters(), {.size = 1000}, InPlace::kAll);
  cohort_tensor gradient{};
  EXPECT_TRUE(buckets.has(COHORT_BUCKET_GRAD));
  buckets.open_gradients(0);
  EXPECT_THROW(buckets.view(0, COHORT_BUCKET_GRAD, "", gradient), UserError);
  EXPECT_EQ(buckets.places(COHORT_BUCKET_GRAD, 2), (std::vector<void*>{nullptr, nullptr}));
  EXPECT_NE(buckets.data(0, COHORT_BUCKET_WEIGHT), nullptr);
}

TEST(Buckets, ShowAGradientThatIsAloneWhereItIsNow) {
  float here[2], there[2];
  float* now = nullptr;
  Buckets buckets(RankDevices(), zeroed, [&](uint32_t) { return now; });
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.want({COHORT_BUCKET_WEIGHT});
  buckets.configure({{2, "c", 1, COHORT_FLOAT32, 0}, {1, "b", 2, COHORT_FLOAT32, 0}, {0, "a", 1, COHORT_FLOAT32, 0}},
                    {.size = 1000, .alone_size = 8}, InPlace::kAlone);
  cohort_tensor gradient{};
  buckets.open_gradients(0);
  EXPECT_THROW(buckets.view(0, COHORT_BUCKET_GRAD, "", gradient), UserError);
  for (float* const place : {here, there}) {
    now = place;
    buckets.view(0, COHORT_BUCKET_GRAD, "", gradient);
    EXPECT_EQ(gradient.data, place);
  }
  const auto places = buckets.places(COHORT_BUCKET_GRAD, 3);
  EXPECT_EQ(places[1], nullptr);
  EXPECT_EQ(static_cast<float*>(places[0]), static_cast<float*>(places[2]) + 1);
  EXPECT_EQ(places[2], buckets.data(1, COHORT_BUCKET_GRAD));
  EXPECT_NE(buckets.places(COHORT_BUCKET_WEIGHT, 3)[1], nullptr);
}

TEST(Buckets, KeepMemoryInWhichTensorsOfTheProgramLieUntilTheyAreGone) {
  int allocated = 0;
  Buckets buckets(
      RankDevices(),
      [&](Device, uint64_t nbytes) {
        ++allocated;
        return BucketMemory(std::malloc(nbytes), [&](void* memory) {
          --allocated;
          std::free(memory);
        });
      },
      [](uint32_t) { return nullptr; });
  const auto lay_out = [&] {
    buckets.reset();
    buckets.want({COHORT_BUCKET_GRAD});
    buckets.configure({{0, "a", 4, COHORT_FLOAT32, 0}, {1, "b", 1, COHORT_FLOAT32, 0}, {2, "c", 1, COHORT_FLOAT32, 0}},
                      {.size = 1000, .alone_size = 16}, InPlace::kAlone);
  };
  lay_out();
  EXPECT_EQ(allocated, 1) << "what is lent and the bucket of two, in one block";
  buckets.take_back_memory(/*is_free=*/false);
  lay_out();
  EXPECT_EQ(allocated, 2);
  buckets.take_back_memory(/*is_free=*/true);
  EXPECT_EQ(allocated, 0);
  EXPECT_FALSE(buckets.left_memory());
}

// Weights that move have two places for that time, in which there is no memory for gradients.
TEST(Buckets, HaveNoGradientsWhileWeightsMove) {
  uint64_t allocated = 0, while_moving = 0;
  Buckets buckets(RankDevices(), [&](Device, uint64_t nbytes) {
    allocated += nbytes;
    return BucketMemory(std::calloc(1, nbytes), [&allocated, nbytes](void* memory) {
      allocated -= nbytes;
      std::free(memory);
    });
  });
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.want({COHORT_BUCKET_WEIGHT});
  buckets.configure(two_parameters(), {.size = 1000}, InPlace::kNone, [&] {
    while_moving = allocated;
    EXPECT_NE(buckets.places(COHORT_BUCKET_WEIGHT, 2)[0], nullptr);
  });
  EXPECT_EQ(allocated, 128u);
  EXPECT_EQ(while_moving, 64u);
  buckets.take_back_memory(/*is_free=*/true);
  EXPECT_EQ(allocated, 64u) << "weights leave the layout behind that";
}

TEST(Buckets, KeepGradientsInTheirBucketWhereItIsPadded) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure({{0, "a", 3, COHORT_FLOAT32, 0}}, {.size = 1, .align = 2}, InPlace::kAlone);
  EXPECT_NE(buckets.places(COHORT_BUCKET_GRAD, 1)[0], nullptr);
}

TEST(Buckets, PlaceEveryParameterWhereItsPartIs) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure(two_parameters(), {.size = 1000});
  const auto places = buckets.places(COHORT_BUCKET_GRAD, 3);
  std::byte* const first = buckets.data(0, COHORT_BUCKET_GRAD);
  EXPECT_EQ(places[1], first);
  EXPECT_EQ(places[0], first + 3 * sizeof(float));
  EXPECT_EQ(places[2], nullptr);
}

TEST(Buckets, KeepStatePerParameterWhenTheLayoutChanges) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_STATE, "own"});
  buckets.configure(two_parameters(), {.size = 1000});
  for (int i = 0; i < 5; ++i) floats(buckets.data(0, COHORT_BUCKET_STATE, "own"))[i] = static_cast<float>(i + 1);
  buckets.reset();
  buckets.want({COHORT_BUCKET_STATE, "own"});
  buckets.configure(two_parameters(), {.size = 1});
  EXPECT_EQ(floats(buckets.data(0, COHORT_BUCKET_STATE, "own"))[2], 3.0f);
  EXPECT_EQ(floats(buckets.data(1, COHORT_BUCKET_STATE, "own"))[0], 4.0f);
}

TEST(Buckets, TellWhichParametersWereInNoEarlierLayout) {
  using Flags = std::vector<uint32_t>;
  Buckets buckets(RankDevices(), zeroed);
  const auto lay_out = [&](std::vector<LayoutParameter> order) {
    buckets.reset();
    buckets.want({COHORT_BUCKET_GRAD});
    buckets.configure(std::move(order), {.size = 1000});
    Flags flags;
    const cohort_bucket& bucket = *buckets.get(0);
    for (uint64_t i = 0; i < bucket.num_parts; ++i) flags.push_back(bucket.parts[i].flags);
    return flags;
  };
  const LayoutParameter a{0, "a", 3, COHORT_FLOAT32, 0}, late{1, "late", 2, COHORT_FLOAT32, 0};
  EXPECT_EQ(lay_out({a}), Flags{COHORT_PART_NEW});
  EXPECT_EQ(lay_out({late, a}), (Flags{COHORT_PART_NEW, 0}));
  EXPECT_EQ(lay_out({late, a}), (Flags{0, 0}));
  buckets.end_training();
  EXPECT_EQ(lay_out({a}), Flags{COHORT_PART_NEW});
  buckets.set_state({});
  EXPECT_EQ(buckets.get(0)->parts[0].flags, 0u) << "a checkpoint has what is kept for it";
  EXPECT_EQ(lay_out({late, a}), (Flags{COHORT_PART_NEW, 0}));
}

TEST(Buckets, NeitherKeepNorSaveScratch) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_STATE, "scratch", 0, COHORT_STATE_SCRATCH});
  buckets.configure(two_parameters(), {.size = 1000});
  floats(buckets.data(0, COHORT_BUCKET_STATE, "scratch"))[0] = 1.0f;
  EXPECT_TRUE(buckets.state().empty());
  buckets.reset();
  buckets.want({COHORT_BUCKET_STATE, "scratch", 0, COHORT_STATE_SCRATCH});
  buckets.configure(two_parameters(), {.size = 1000});
  EXPECT_EQ(floats(buckets.data(0, COHORT_BUCKET_STATE, "scratch"))[0], 0.0f);
}

TEST(Buckets, KeepStateForALaterLayoutThatWantsItAlsoWhileItIsSaved) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_STATE, "m"});
  buckets.configure(two_parameters(), {.size = 1000});
  floats(buckets.data(0, COHORT_BUCKET_STATE, "m"))[1] = 5.0f;
  buckets.reset();
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure(two_parameters(), {.size = 1000});
  EXPECT_EQ(buckets.state().count("m"), 1u);
  buckets.reset();
  buckets.want({COHORT_BUCKET_STATE, "m"});
  buckets.configure(two_parameters(), {.size = 1000});
  EXPECT_EQ(floats(buckets.data(0, COHORT_BUCKET_STATE, "m"))[1], 5.0f);
}

TEST(Buckets, KeepStateApartFromTheOptimizersOfTheSameName) {
  const float saved[] = {1, 2, 3};
  StrategyState::Buckets state;
  state["m"].values[1].assign(reinterpret_cast<const std::byte*>(saved), reinterpret_cast<const std::byte*>(saved + 3));
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_OPTIM, "m"});
  buckets.configure(two_parameters(), {.size = 1000});
  buckets.set_state(state);
  buckets.reset();
  buckets.want({COHORT_BUCKET_STATE, "m"});
  buckets.configure(two_parameters(), {.size = 1000});
  EXPECT_EQ(floats(buckets.data(0, COHORT_BUCKET_STATE, "m"))[2], 3.0f);
}

TEST(Buckets, ReplaceAnEarlierLayout) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure(two_parameters(), {.size = 1});
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure(two_parameters(), {.size = 1000});
  EXPECT_EQ(buckets.count(), 1u);
}

TEST(Buckets, HaveWhatWasWantedSinceTheLastLayout) {
  Buckets buckets(RankDevices(), zeroed);
  buckets.want({COHORT_BUCKET_GRAD});
  buckets.configure(two_parameters(), {.size = 1});
  buckets.want({COHORT_BUCKET_OPTIM, "exp_avg"});
  buckets.want({COHORT_BUCKET_OPTIM, "exp_avg_sq"});
  buckets.configure(two_parameters(), {.size = 1});
  EXPECT_FALSE(buckets.has(COHORT_BUCKET_GRAD));
  EXPECT_EQ(buckets.data(0, COHORT_BUCKET_GRAD), nullptr);
  EXPECT_EQ(buckets.names(COHORT_BUCKET_OPTIM), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  const auto places = buckets.places(COHORT_BUCKET_OPTIM, 2, "exp_avg_sq");
  EXPECT_EQ(places[0], buckets.data(1, COHORT_BUCKET_OPTIM, "exp_avg_sq"));
}

}  // namespace
}  // namespace cohort::host
