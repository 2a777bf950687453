#include <cohort/diagnosis/post_mortem.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>
#include <cohort/toy_host/toy_host.hpp>

#include "temporary_folder.hpp"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using toy::ToyRank;

toy::ToyJob job(int world_size, std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  toy::ToyJob job;
  job.plugin_dirs = {COHORT_TEST_PLUGINS};
  job.strategy = StrategySpec("ddp");
  job.collective = CollectiveSpec("shm");
  job.world_size = world_size;
  job.timeout = timeout;
  return job;
}

struct Reports {
  std::vector<std::string> texts;
  std::vector<int> codes;
};

// What each rank reports where `body` fails on it, as a program does; "" where it does not.
Reports reports(
    const toy::ToyJob& job, const std::function<void(ToyRank&)>& body, const std::filesystem::path& log_dir = {},
    const std::function<void()>& when_one_is_known = [] {}) {
  Reports found;
  found.codes.resize(static_cast<size_t>(job.world_size));
  found.texts = toy::run_ranks_to_failure(job, [&](ToyRank& rank) {
    PostMortem post_mortem(rank.runtime, log_dir);
    try {
      post_mortem.introduce();
      body(rank);
    } catch (const Error& error) {
      const Failure failure = post_mortem.examine({static_cast<int>(error.code()), error.what(), "Error"});
      found.codes[static_cast<size_t>(rank.rank)] = failure.exit_code;
      when_one_is_known();
      post_mortem.leave();
      throw std::runtime_error(failure.message);
    }
  });
  return found;
}

void step(ToyRank& rank, host::StepEngine& engine, toy::ToyModel& model) {
  rank.step(engine, model, std::vector<std::vector<double>>{{1.0, 2.0}, {3.0}});
}

TEST(PostMortem, TellsTheOthersWhoThrewAndWhat) {
  const auto [texts, codes] = reports(job(3), [](ToyRank& rank) {
    toy::ToyModel model({{"fc.weight", 2}, {"fc.bias", 1}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int i = 0; i < 3; ++i) step(rank, engine, model);
    try {
      if (rank.rank == 1) throw TrainingFailed("no such file 'x'\nand a second line");
      step(rank, engine, model);
    } catch (...) {
      rank.runtime.release_model(model);
      throw;
    }
  });
  EXPECT_EQ(texts[1], "no such file 'x'\nand a second line");
  for (const size_t rank : {0u, 2u}) {
    EXPECT_THAT(texts[rank],
                AllOf(HasSubstr("rank 1 (pid "), HasSubstr("failed: no such file 'x'; seen here as: step 3"),
                      Not(HasSubstr("second line"))));
  }
  EXPECT_THAT(codes, ::testing::ElementsAre(4, 1, 4));
}

TEST(PostMortem, FindsWhereTheOrderOfOperationsDiffers) {
  const auto [texts, codes] = reports(job(2), [](ToyRank& rank) {
    rank.runtime.barrier();
    std::vector<double> values(7, 1.0);
    rank.rank == 0 ? rank.runtime.all_reduce(values, COHORT_REDUCE_SUM) : rank.runtime.barrier();
  });
  EXPECT_THAT(codes, Each(2));
  EXPECT_THAT(texts,
              Each(AllOf(HasSubstr("of control: rank 0 called all_reduce sum of float64[7] for reducing metrics"),
                         HasSubstr("rank 1 called barrier"))));
}

TEST(PostMortem, FindsADifferenceOfTypes) {
  const auto [texts, codes] = reports(job(2), [](ToyRank& rank) {
    std::vector<double> data(4, 1.0);
    cohort_op_args args{};
    args.struct_size = sizeof args;
    args.dtype = rank.rank == 0 ? COHORT_FLOAT32 : COHORT_FLOAT64;
    args.reduce = COHORT_REDUCE_SUM;
    args.input = args.output = data.data();
    args.count = 4;
    args.stream.device_type = COHORT_DEVICE_CPU;
    rank.runtime.user_all_reduce(args);
  });
  EXPECT_THAT(codes, Each(2));
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("#1 of user: rank 0 called all_reduce sum of float32[4]"),
                                HasSubstr("rank 1 called all_reduce sum of float64[4]"))));
}

TEST(PostMortem, SaysOfASilentRankThatItRuns) {
  std::atomic<bool> is_known = false;
  const auto [texts, codes] = reports(
      job(2, std::chrono::seconds(1)),
      [&](ToyRank& rank) {
        if (rank.rank == 0) return rank.runtime.barrier();
        is_known.wait(false);
      },
      {},
      [&] {
        is_known = true;
        is_known.notify_all();
      });
  EXPECT_EQ(codes[0], 4);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("rank 1 (pid "), HasSubstr("runs but has not failed"), HasSubstr("barrier")));
}

// Its operations end with "it took too long" and nothing else.
toy::ToyJob job_of_a_patient_collective() {
  toy::ToyJob made = job(3, std::chrono::seconds(1));
  made.plugins = {TEST_PLUGIN_FOLDER "/cohort_patient.so"};
  made.collective = CollectiveSpec("patient");
  return made;
}

TEST(PostMortem, TellsWhoThrewOverAStrangersCollective) {
  const auto [texts, codes] = reports(job_of_a_patient_collective(), [](ToyRank& rank) {
    if (rank.rank == 1) throw TrainingFailed("no such file 'x'");
    rank.runtime.barrier();
  });
  for (const size_t rank : {0u, 2u}) {
    EXPECT_THAT(texts[rank], AllOf(HasSubstr("rank 1 (pid "), HasSubstr("failed: no such file 'x'; seen here as: "),
                                   HasSubstr("it took too long")));
  }
  EXPECT_THAT(codes, ::testing::ElementsAre(4, 1, 4));
}

TEST(PostMortem, NamesASilentRankOverAStrangersCollective) {
  std::atomic<int> known = 0;
  const auto [texts, codes] = reports(
      job_of_a_patient_collective(),
      [&](ToyRank& rank) {
        if (rank.rank != 1) return rank.runtime.barrier();
        for (int now = known; now < 2; now = known) known.wait(now);
        throw TrainingFailed("the others know");
      },
      {},
      [&] {
        ++known;
        known.notify_all();
      });
  for (const size_t rank : {0u, 2u}) {
    EXPECT_EQ(codes[rank], 4);
    EXPECT_THAT(texts[rank], AllOf(::testing::StartsWith("rank 1 (pid "), HasSubstr("runs but has not failed"),
                                   Not(HasSubstr("rank 0 (pid")), Not(HasSubstr("rank 2 (pid"))));
  }
}

TEST(PostMortem, FindsADifferenceOverAStrangersCollective) {
  const auto [texts, codes] = reports(job_of_a_patient_collective(), [](ToyRank& rank) {
    std::vector<double> values(7, 1.0);
    rank.rank == 0 ? rank.runtime.all_reduce(values, COHORT_REDUCE_SUM) : rank.runtime.barrier();
  });
  EXPECT_THAT(codes, Each(2));
  EXPECT_THAT(texts, Each(HasSubstr("called all_reduce sum of float64[7] for reducing metrics")));
}

TEST(PostMortem, WritesTheLastOperationsToTheLogFolder) {
  const cohort::testing::TemporaryFolder folder;
  reports(
      job(2),
      [](ToyRank& rank) {
        toy::ToyModel model({{"fc.weight", 2}, {"fc.bias", 1}}, 1.0, 1.0);
        host::StepEngine& engine = rank.runtime.configure(model);
        for (int i = 0; i < 100; ++i) step(rank, engine, model);
        rank.runtime.release_model(model);
        if (rank.rank == 1) throw UserError("no more data");
        rank.runtime.barrier();
      },
      folder.path());
  for (const int rank : {0, 1}) {
    const auto flight = nlohmann::json::parse(folder.read("flight-rank-" + std::to_string(rank) + ".json"));
    EXPECT_EQ(flight.at("rank"), rank);
    EXPECT_EQ(flight.at("exit_code"), rank == 1 ? 2 : 4);
    size_t of_world = 0, of_buckets = 0;
    for (const auto& operation : flight.at("operations")) {
      if (operation.at("communicator") == "default/world") ++of_world;
      if (operation.at("purpose") == "bucket 0 (fc.bias .. fc.weight, 2 parameters)") ++of_buckets;
    }
    EXPECT_EQ(of_world, host::FlightRecorder::kKept);
    EXPECT_EQ(of_buckets, host::FlightRecorder::kKept / 2);  // and the flags of each step
  }
}

}  // namespace
}  // namespace cohort
