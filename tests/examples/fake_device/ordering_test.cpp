// The port of rank 0 leaves out orderings of streams here. The race check has to name the two accesses that race.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include <gmock/gmock.h>

#include "training.hpp"

namespace cohort::test {
namespace {

/// The owner of a stream. Streams of one kind are not told apart.
enum class Of { kProgram, kLane0, kOther /* a lane of the strategy's own, or a replica */ };

const char* text_of(Of stream) {
  return stream == Of::kProgram ? "the program" : stream == Of::kLane0 ? "lane 0" : "another";
}

/// A device that never orders `later` streams behind `earlier` ones.
class Forgetful final : public toy::FakeToyDevice {
 public:
  Forgetful(int index, Of later, Of earlier) : FakeToyDevice(index), later_(later), earlier_(earlier) {}

 private:
  Of later_, earlier_;
  std::mutex mutex_;
  std::vector<void*> streams_;  // in the order made: the program's, lane 0's, others
  std::map<const host::DeviceEvent*, Of> events_;

  Of owner_of(const cohort_stream& stream) {
    const auto found = std::ranges::find(streams_, stream.native) - streams_.begin();
    return found == 0 ? Of::kProgram : found == 1 ? Of::kLane0 : Of::kOther;
  }
  cohort_stream make_stream(host::Device device) override {
    const cohort_stream stream = FakeToyDevice::make_stream(device);
    const std::lock_guard lock(mutex_);
    streams_.push_back(stream.native);
    return stream;
  }
  std::shared_ptr<host::DeviceEvent> record(const cohort_stream& stream) override {
    auto event = FakeToyDevice::record(stream);
    const std::lock_guard lock(mutex_);
    events_[event.get()] = owner_of(stream);
    return event;
  }
  void order(const cohort_stream& stream, host::DeviceEvent& event) override {
    {
      const std::lock_guard lock(mutex_);
      if (owner_of(stream) == later_ && events_.at(&event) == earlier_) return;
    }
    FakeToyDevice::order(stream, event);
  }
};

struct Mutation {
  Training training;
  Of later, earlier;
  const char* named;  ///< the race, as a regular expression
  const char* collective = "shm";
};

std::ostream& operator<<(std::ostream& out, const Mutation& mutation) {
  return out << mutation.training.strategy << " without order of " << text_of(mutation.later) << " behind "
             << text_of(mutation.earlier);
}

const std::vector<Mutation> kMutations{
    // The lane does not wait for gradients or weights that it reads.
    {{.name = "Ddp", .strategy = "ddp"},
     Of::kLane0,
     Of::kProgram,
     "copy on stream [0-9]+ reads what initialization on stream [0-9]+ writes"},
    {{.name = "Decentralized", .strategy = "bagua:decentralized", .one_bucket = true},
     Of::kLane0,
     Of::kProgram,
     "reads what"},
    {{.name = "LowPrecision", .strategy = "bagua:low_precision_decentralized"}, Of::kLane0, Of::kProgram, "reads what"},
    {{.name = "Async", .strategy = "bagua:async,sync_interval_ms=1", .one_bucket = true, .steps = 1},
     Of::kOther,
     Of::kProgram,
     "copy on stream [0-9]+ reads what copy on stream [0-9]+ writes"},
    // Nothing orders buckets on their way to the strategy's own lanes, or back.
    {{.name = "Bytegrad", .strategy = "bagua:bytegrad"},
     Of::kOther,
     Of::kLane0,
     "lane 'buckets-0'.*on stream [0-9]+ reads what backward on stream [0-9]+ writes"},
    {{.name = "BytegradBack", .strategy = "bagua:bytegrad"},
     Of::kLane0,
     Of::kOther,
     "step on stream [0-9]+ reads what decode on stream [0-9]+ writes"},
    {{.name = "QadamBack", .strategy = "bagua:qadam,warmup_steps=1", .optimizer = "adam"},
     Of::kLane0,
     Of::kOther,
     "adam on stream [0-9]+ reads what decode on stream [0-9]+ writes"},
    // The program does not wait for results that a lane has enqueued.
    {{.name = "Fp16Back", .strategy = "ddp,compression=fp16"},
     Of::kProgram,
     Of::kLane0,
     "step on stream [0-9]+ reads what cast on stream [0-9]+ writes"},
    {{.name = "PairsBack", .strategy = "bagua:decentralized,peer_selection_mode=shift_one", .one_bucket = true},
     Of::kProgram,
     Of::kLane0,
     "copy on stream [0-9]+ reads what axpby on stream [0-9]+ writes"},
    {{.name = "AdasumBack", .strategy = "horovod,op=adasum", .one_bucket = true},
     Of::kProgram,
     Of::kLane0,
     "what axpby on stream [0-9]+ writes"},
    {{.name = "AsyncBack", .strategy = "bagua:async,sync_interval_ms=1", .one_bucket = true, .steps = 1},
     Of::kProgram,
     Of::kOther,
     "axpby on stream [0-9]+ reads what axpby on stream [0-9]+ writes"},
    {{.name = "DdpBackOnPeer", .strategy = "ddp"},
     Of::kProgram,
     Of::kLane0,
     "step on stream [0-9]+ reads what all_reduce on stream [0-9]+ writes",
     "peer"},
    {{.name = "DecentralizedBackOnPeer", .strategy = "bagua:decentralized", .one_bucket = true},
     Of::kProgram,
     Of::kLane0,
     "copy on stream [0-9]+ reads what all_reduce on stream [0-9]+ writes",
     "peer"},
    {{.name = "LowPrecisionOnPeer", .strategy = "bagua:low_precision_decentralized"},
     Of::kProgram,
     Of::kLane0,
     "decode_add on stream [0-9]+ reads what copy on stream [0-9]+ writes",
     "peer"},
    {{.name = "QadamBackOnPeer", .strategy = "bagua:qadam,warmup_steps=1", .optimizer = "adam"},
     Of::kLane0,
     Of::kOther,
     "on stream [0-9]+ reads what .* on stream [0-9]+ writes",
     "peer"},
    // Replicas have a stream each, and lane 0 does not wait for their gradients.
    {{.name = "Replicas", .strategy = "ddp2", .nodes = 2, .replicas = 2},
     Of::kLane0,
     Of::kOther,
     "sum_of_n on stream [0-9]+ reads what backward on stream [0-9]+ writes",
     "sim,over=shm,bandwidth=100Gbit,latency=1us"},
    {{.name = "ReplicasOfDp", .strategy = "dp", .ranks = 1, .replicas = 2},
     Of::kLane0,
     Of::kOther,
     "sum_of_n on stream [0-9]+ reads what backward on stream [0-9]+ writes"},
};

class ForgottenOrder : public testing::TestWithParam<Mutation> {};
INSTANTIATE_TEST_SUITE_P(Of, ForgottenOrder, testing::ValuesIn(kMutations),
                         [](const auto& test) { return std::string(test.param.training.name); });

TEST_P(ForgottenOrder, IsNamedByTheRaceCheck) {
  const auto& [training, later, earlier, named, collective] = GetParam();
  const auto failures = train_to_failure(training, collective, [&](int rank) -> std::unique_ptr<toy::ToyDevice> {
    if (rank > 0) return fake_device_of(rank);
    return std::make_unique<Forgetful>(rank, later, earlier);
  });
  EXPECT_THAT(failures[0], testing::ContainsRegex(named));
  EXPECT_THAT(failures[0], testing::HasSubstr("nothing orders the two"));
}

/// A device that counts its calls of `order` and leaves out the one with this number.
class ForgetsOne final : public toy::FakeToyDevice {
 public:
  ForgetsOne(int index, int left_out, std::atomic<int>& count)
      : FakeToyDevice(index), left_out_(left_out), count_(count) {}

 private:
  int left_out_;
  std::atomic<int>& count_;

  void order(const cohort_stream& stream, host::DeviceEvent& event) override {
    if (count_++ != left_out_) FakeToyDevice::order(stream, event);
  }
};

class ForgottenCall : public testing::TestWithParam<Training> {};
INSTANTIATE_TEST_SUITE_P(
    Of, ForgottenCall,
    testing::Values(
        Training{.name = "Ddp", .strategy = "ddp", .steps = 2},
        Training{.name = "Fp16", .strategy = "ddp,compression=fp16", .steps = 2},
        Training{.name = "Bytegrad", .strategy = "bagua:bytegrad", .steps = 2},
        Training{.name = "LowPrecision", .strategy = "bagua:low_precision_decentralized", .steps = 2},
        Training{.name = "Decentralized", .strategy = "bagua:decentralized", .one_bucket = true, .steps = 2},
        Training{.name = "Adasum", .strategy = "horovod,op=adasum", .one_bucket = true, .steps = 2},
        Training{.name = "Sharded", .strategy = "sharded", .steps = 2},
        Training{.name = "Qadam", .strategy = "bagua:qadam,warmup_steps=1", .optimizer = "adam", .steps = 2},
        Training{.name = "Async", .strategy = "bagua:async,sync_interval_ms=1", .one_bucket = true, .steps = 1}),
    [](const auto& test) { return std::string(test.param.name); });

// A call that is left out need not cause a race: a bucket's last gradient may be on the stream that submits it, say.
TEST_P(ForgottenCall, IsNamedOrWasNotNeeded) {
  const Training& training = GetParam();
  const auto wanted = train(training, "peer", fake_device_of)[0].weights;
  int named = 0, calls = 1;
  for (int left_out = 0; left_out < calls; ++left_out) {
    std::atomic<int> count{0};
    toy::ToyState state;
    toy::ToyJob job = job_of(training, "peer", [&](int rank) -> std::unique_ptr<toy::ToyDevice> {
      if (rank > 0) return fake_device_of(rank);
      return std::make_unique<ForgetsOne>(rank, left_out, count);
    });
    job.timeout = std::chrono::seconds(5);
    const auto failures = toy::run_ranks_to_failure(job, [&](toy::ToyRank& rank) {
      toy::ToyState own = train_rank(training, rank);
      if (rank.rank == 0) state = std::move(own);
    });
    const auto is_named = [](const std::string& text) {
      return text.find("nothing orders the two") != std::string::npos;
    };
    if (std::ranges::any_of(failures, is_named)) {
      ++named;
    } else {
      EXPECT_THAT(failures, testing::Each("")) << "without call " << left_out;
      EXPECT_EQ(state.weights, wanted) << "without call " << left_out;
    }
    calls = std::max(calls, count.load());
  }
  EXPECT_GE(named, 1) << "of " << calls << " calls, whose numbers depend on how threads take turns";
}

}  // namespace
}  // namespace cohort::test
