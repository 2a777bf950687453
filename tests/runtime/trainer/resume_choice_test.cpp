#include <gmock/gmock.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <fstream>

#include <cohort/checkpoint.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/message.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/generators.hpp"
#include "checkpoint/loop_state.hpp"
#include "checkpoint/session_tensors.hpp"
#include "forged_checkpoint.hpp"
#include "other_writer.hpp"
#include "training_job.hpp"

namespace cohort::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

/// A checkpoint in the middle of an epoch (step 8 of 6 per epoch), made anew for each change.
struct Stopped {
  Stopped() {
    Job job = writing(folder.path());
    job.prepare = [](Learner& net) { net.during = signal_at_call(8); };
    train(job);
    checkpoint = folder.path() / "step-00000008";
  }
  std::string resumed(std::function<void(Job&)> change = [](Job&) {}) const {
    Job job = writing(folder.path(), [](Options& o) { o.resume = "auto"; });
    change(job);
    return mistake(job);
  }
  TemporaryFolder folder;
  fs::path checkpoint;
};

void overwrite(const fs::path& file, std::streamoff at, char byte) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
  stream.put(byte);
}

TEST(Resume, PassesOverADamagedCheckpointForAnOlderOne) {
  for (const char* name : {"shared.safetensors", "rank-0.safetensors"}) {
    const Stopped stopped;
    ASSERT_THAT(names_in(stopped.folder.path()), SizeIs(2));
    overwrite(stopped.checkpoint / name, -1, '\x55');
    Job job = writing(stopped.folder.path(), [](Options& o) { o.resume = "auto"; });
    const Outcome second = train(job);
    EXPECT_EQ(second.indices.size(), 12U);  // from step 6
    EXPECT_EQ(second.digest, train({}).digest);
  }
}

TEST(Resume, GoesOnFromACheckpointThatWasBeingReplaced) {
  const Stopped stopped;
  fs::rename(stopped.checkpoint, stopped.checkpoint.string() + ".replaced");
  const Outcome second = train(writing(stopped.folder.path(), [](Options& o) { o.resume = "auto"; }));
  EXPECT_EQ(second.digest, train({}).digest);
}

TEST(Resume, FromADamagedCheckpointThatIsNamedSaysWhatIsWrong) {
  const auto message = [](const std::function<void(const fs::path&)>& damage) {
    const Stopped stopped;
    damage(stopped.checkpoint);
    return stopped.resumed([&](Job& job) { job.options = [&](Options& o) { o.resume = stopped.checkpoint; }; });
  };
  EXPECT_EQ(message([](const fs::path&) {}), "");
  EXPECT_THAT(message([](const fs::path& c) { overwrite(c / "shared.safetensors", 200, '\x01'); }),
              HasSubstr("shared.safetensors is not as it was written"));
  EXPECT_THAT(message([](const fs::path& c) { fs::resize_file(c / "rank-0.safetensors", 100); }),
              HasSubstr("rank-0.safetensors is not as it was written: its length is 100 bytes"));
  EXPECT_THAT(message([](const fs::path& c) { fs::remove(c / "rank-0.safetensors"); }), HasSubstr("cannot read"));
  EXPECT_THAT(message([](const fs::path& c) { fs::resize_file(c / "manifest.json", 50); }),
              HasSubstr("is not the manifest of a checkpoint"));
  EXPECT_THAT(message([](const fs::path& c) { fs::remove(c / "manifest.json"); }),
              HasSubstr("there is no checkpoint in"));
  EXPECT_THAT(message([](const fs::path& c) {
                fs::remove_all(c);
                std::ofstream(c) << "file";
              }),
              HasSubstr("is a file"));
}

TEST(Resume, PassesOverAPipeInPlaceOfAnyFile) {
  for (const char* name : {"manifest.json", "shared.safetensors", "rank-0.safetensors"}) {
    const Stopped stopped;
    fs::remove(stopped.checkpoint / name);
    ASSERT_EQ(::mkfifo((stopped.checkpoint / name).c_str(), 0600), 0);
    Job job = writing(stopped.folder.path(), [](Options& o) { o.resume = "auto"; });
    EXPECT_EQ(train(job).digest, train({}).digest) << name;
  }
}

TEST(Resume, PassesOverAFileThatHasHolesForMoreThanAnyMemory) {
  const Stopped stopped;
  fs::resize_file(stopped.checkpoint / "shared.safetensors", uint64_t{1} << 42);
  Job job = writing(stopped.folder.path(), [](Options& o) { o.resume = "auto"; });
  EXPECT_EQ(train(job).digest, train({}).digest);
}

TEST(Resume, WorksInAFolderWithAnyName) {
  const TemporaryFolder folder;
  const fs::path odd = folder.path() / "a\nb\x01\xff '\"";
  Job job = writing(odd);
  job.prepare = [](Learner& net) { net.during = signal_at_call(8); };
  train(job);
  EXPECT_EQ(train(writing(odd, [](Options& o) { o.resume = "auto"; })).digest, train({}).digest);
  EXPECT_THAT(mistake(writing(odd)), AllOf(HasSubstr("a\\x0ab\\x01"), Not(HasSubstr("\n"))));
}

at::Tensor& tensor_named(NamedTensors& tensors, const std::string& name) {
  return std::ranges::find(tensors, name, &NamedTensors::value_type::first)->second;
}

TEST(Resume, FromAForgedCheckpointSaysWhatIsWrong) {
  const auto message = [](const std::string& file, const std::function<void(NamedTensors&)>& change) {
    const Stopped stopped;
    forge(stopped.checkpoint, file, change);
    return stopped.resumed([&](Job& job) { job.options = [&](Options& o) { o.resume = stopped.checkpoint; }; });
  };
  const std::string shared = kSharedFile, own = rank_file(0);
  EXPECT_EQ(message(shared, [](NamedTensors&) {}), "");
  EXPECT_THAT(message(shared,
                      [](NamedTensors& t) {
                        std::erase_if(t, [](const auto& item) { return item.first == "optimizer.exp_avg.fc1.weight"; });
                      }),
              HasSubstr("it has no 'optimizer.exp_avg.fc1.weight'"));
  EXPECT_THAT(message(shared, [](NamedTensors& t) { t.emplace_back("optimizer.exp_avg.fc9", torch::ones({1})); }),
              HasSubstr("holds 'optimizer.exp_avg.fc9', which is of no parameter"));
  EXPECT_THAT(message(own, [](NamedTensors& t) { t.emplace_back("fc1.bias", torch::ones({4})); }),
              HasSubstr("rank-0.safetensors holds 'fc1.bias' of this rank alone, but the manifest says"));
  EXPECT_THAT(message(own, [](NamedTensors& t) { t.emplace_back("optimizer.exp_avg.fc1.bias", torch::ones({4})); }),
              HasSubstr("rank-0.safetensors holds 'optimizer.exp_avg.fc1.bias' of this rank alone"));
  EXPECT_THAT(message(own, [](NamedTensors& t) { tensor_named(t, kGeneratorName).fill_(255); }),
              HasSubstr("holds the state of another random number generator"));
  EXPECT_THAT(message(own, [](NamedTensors& t) { t.emplace_back(kGeneratorBeforeAheadName, torch::ones({3})); }),
              HasSubstr("holds the state of another random number generator"));
  EXPECT_THAT(message(own, [](NamedTensors& t) { t.emplace_back("cohort.state/top/kept/fc1.bias", torch::ones({4})); }),
              HasSubstr("rank-0.safetensors holds STATE 'kept' of layer 'top' of this rank alone"));
  EXPECT_THAT(message(own, [](NamedTensors& t) { t.emplace_back("cohort.strategy/top/key", torch::ones({4})); }),
              HasSubstr("rank-0.safetensors holds value 'key' of layer 'top' of this rank alone"));
  EXPECT_THAT(message(shared, [](NamedTensors& t) { t.emplace_back("cohort.state/kept/fc1.bias", torch::ones({3})); }),
              HasSubstr("has state of the strategy in 'cohort.state/kept/fc1.bias' that fits no weight"));
  EXPECT_THAT(message(own, [](NamedTensors& t) { t.emplace_back("cohort.metrics.latest/x", torch::ones({3})); }),
              HasSubstr("does not hold numbers in 'cohort.metrics.latest/x'"));
}

TEST(Resume, ReadsACountThatWasKeptAsAFloatingNumber) {
  const Stopped stopped;
  forge(stopped.checkpoint, kSharedFile, [](NamedTensors& tensors) {
    at::Tensor& count = tensor_named(tensors, "bn.num_batches_tracked");
    ASSERT_EQ(count.scalar_type(), torch::kLong);
    count = count.to(torch::kFloat);
  });
  Job job = writing(stopped.folder.path(), [&](Options& o) { o.resume = stopped.checkpoint; });
  EXPECT_EQ(train(job).digest, train({}).digest);
}

TEST(Fingerprints, ReadBackWhateverTheNames) {
  const Fingerprints prints{{"fc.weight", 1}, {std::string("two\nlines\0", 10), UINT64_MAX}, {"", 0}, {"\xff", 3}};
  const std::string text = to_message(prints);
  EXPECT_EQ(from_message<Fingerprints>(text, "fingerprints"), prints);
  for (const std::string& other : {text.substr(0, text.size() - 1), std::string(), std::string(16, '\xff')}) {
    EXPECT_THAT(error_text<PeerFailed>([&] { from_message<Fingerprints>(other, "fingerprints"); }),
                HasSubstr("sent fingerprints that cannot be read"));
  }
}

TEST(Checkpoints, TwoJobsDoNotWriteIntoOneFolder) {
  const TemporaryFolder folder;
  Job job = writing(folder.path());
  std::string other;
  job.prepare = [&](Learner& net) {
    net.during = [&] {
      if (!other.empty()) return;
      const pid_t fork = ::fork();
      if (fork == 0) ::_exit(mistake(writing(folder.path())).starts_with("another job (process ") ? 7 : 1);
      int status = 0;
      ::waitpid(fork, &status, 0);
      other = std::to_string(WEXITSTATUS(status));
    };
  };
  EXPECT_EQ(train(job).digest, train({}).digest);
  EXPECT_EQ(other, "7");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000012", "step-00000018"));
}

TEST(Resume, NeedsAllThatTheCheckpointWasMadeWith) {
  const Stopped stopped;
  EXPECT_THAT(stopped.resumed([](Job& job) {
    job.prepare = [](Learner& net) { net.register_parameter("extra", torch::zeros({2, 3})); };
  }),
              HasSubstr("another model; resume with the model that it was trained with\n"
                        "  extra: [2, 3] in the model, not in the checkpoint"));
  EXPECT_THAT(
      stopped.resumed([](Job& job) { job.prepare = [](Learner& net) { net.fc2->bias.set_data(torch::zeros({2})); }; }),
      HasSubstr("fc2.bias: [2] in the model, [1] in the checkpoint"));
  EXPECT_THAT(stopped.resumed([](Job& job) {
    job.prepare = [](Learner& net) { net.bn->running_mean.set_data(net.bn->running_mean.to(torch::kDouble)); };
  }),
              HasSubstr("bn.running_mean: Double in the model, Float in the checkpoint"));
  EXPECT_THAT(stopped.resumed([](Job& job) { job.data = [](Numbers& data) { data.training.batch_size = 2; }; }),
              HasSubstr("batch size: 3, now 2"));
  EXPECT_THAT(
      stopped.resumed([](Job& job) { job.data = [](Numbers& data) { data.training.dataset = Numbers::numbers(18); }; }),
      HasSubstr("training samples: 17, now 18"));
  EXPECT_THAT(stopped.resumed([&](Job& job) { job.script = [](Script& s) { s.options.seed = 9; }; }),
              HasSubstr("--seed: 0, now 9"));
}

TEST(Resume, AnotherNumberOfRanksWithASamplerNeedsTheEndOfAnEpoch) {
  const auto two_ranks = [](Job& job) {
    job.script = [](Script& s) {
      s.topology.world_size = 2;
      s.all_gather = [](std::string own) { return std::vector{own, own}; };
    };
  };
  const Stopped stopped;
  for (const char* const name : {"step-00000008", "step-00000006"}) {  // in the middle of an epoch, and at its end
    const std::string mistake = stopped.resumed([&](Job& job) {
      two_ranks(job);
      job.options = [&](Options& o) { o.resume = stopped.folder.path() / name; };
    });
    EXPECT_EQ(mistake, "") << name;
  }
  EXPECT_THAT(
      stopped.resumed([&](Job& job) {
        two_ranks(job);
        job.data = [](Numbers& data) {
          data.training.sampler = [](int64_t size, const Shard& shard) { return training_indices(size, shard, false); };
        };
      }),
      HasSubstr("in the middle of epoch 1 of 1 rank(s), and which samples are left to another number of ranks"));
}

/// Two ranks, of which the other one has this one's tensors, but for a change.
std::function<void(Script&)> two_ranks(std::function<void(Fingerprints&)> change) {
  return [change = std::move(change)](Script& script) {
    script.topology.world_size = 2;
    script.all_gather = [change](const std::string& own) {
      std::string others = own;
      if (own.find("optimizer.") != std::string::npos) {
        Fingerprints prints = from_message<Fingerprints>(own, "fingerprints");
        change(prints);
        others = to_message(prints);
      }
      return std::vector{own, others};
    };
  };
}

TEST(Resume, WithOtherRanksIsRefusedWhereStateOfRanksHasNoMean) {
  const auto message = [](std::function<void(Fingerprints&)> change) {
    const TemporaryFolder folder;
    Job job = writing(folder.path());
    job.script = two_ranks(std::move(change));
    {
      const OtherWriter other(folder.path());
      train(job);
    }
    const std::string last = names_in(folder.path()).back();
    return mistake(writing(folder.path(), [&](Options& o) { o.resume = folder.path() / last; }));
  };
  const std::string momentum = "optimizer.exp_avg.fc1.bias";
  EXPECT_EQ(message([](Fingerprints&) {}), "");
  EXPECT_EQ(message([&](Fingerprints& other) { other.at(momentum) ^= 1; }), "") << "its mean is taken";
  const auto refused = AllOf(HasSubstr("optimizer state without a mean of each of 2 ranks, which no other number of "
                                       "ranks can go on with; resume with 2 ranks"),
                             Not(HasSubstr("\n")));
  EXPECT_THAT(message([&](Fingerprints& other) { other.erase(momentum); }), refused) << "this rank alone has it";
  EXPECT_THAT(message([](Fingerprints& other) { other.emplace("optimizer.exp_avg.more", 1); }), refused);
  EXPECT_THAT(message([](Fingerprints& other) { other.emplace("optimizer.archive", 1); }), refused);
}

TEST(Resume, OptionsThatContradictEachOtherAreRefused) {
  const TemporaryFolder folder;
  const auto message = [](std::function<void(Options&)> options) { return mistake({.options = std::move(options)}); };
  EXPECT_THAT(message([](Options& o) { o.resume = "auto"; }), HasSubstr("--resume=auto goes on from --checkpoint-dir"));
  EXPECT_THAT(message([](Options& o) { o.checkpoint_every_n_steps = 3; }), HasSubstr("needs a folder"));
  EXPECT_THAT(message([&](Options& o) { o.resume = folder.path() / "none"; }), HasSubstr("there is no checkpoint in"));
}

TEST(Resume, OptionsOfTheProgramsCodeWaitForAFolder) {
  const auto of_code = [](Options& o) {
    o.checkpoint_every_n_steps = 3;
    o.resume = "auto";
    o.monitor = Spec("val");
    for (const char* flag : {"checkpoint-every-n-steps", "resume", "monitor"}) o.origins[flag] = Origin::kCode;
  };
  EXPECT_NO_THROW(train({.options = of_code}));
}

TEST(Resume, AFreshTrainingLeavesTheCheckpointsOfAnotherAlone) {
  const Stopped stopped;
  EXPECT_THAT(mistake(writing(stopped.folder.path())), HasSubstr("holds checkpoints of another training"));
  EXPECT_THAT(names_in(stopped.folder.path()), SizeIs(2));
}

TEST(Session, SavesIntoAFolderThatItsProcessHasLocked) {
  const TemporaryFolder folder;
  const auto lock = open_checkpoint_folder(folder.path());  // as a fit does
  ScriptedRun run;
  Learner net;
  Session session(run.runtime(), net, net.configure_optimizers());
  save(session, folder.path());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(error_text<UserError>([&] { const FolderLock other(folder.path()); }).empty() ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "it has lost the lock";
}

TEST(Session, SavesAndLoadsInALoopOfOnesOwn) {
  const TemporaryFolder folder;
  const auto steps = [](Session& session, Learner& net, int count) {
    for (int i = 0; i < count; ++i) {
      session.begin();
      session.backward(torch::dropout(net.fc1(torch::full({2, 1}, 0.5)), 0.5, true).square().mean());
      session.step();
    }
  };
  ScriptedRun run;
  Learner net;
  Session session(run.runtime(), net, net.configure_optimizers());
  steps(session, net, 3);
  run.script().strategy.values["kept/value"].bytes = "some bytes";
  run.script().strategy.buckets["kept"].values[0] = std::vector<std::byte>(net.fc1->weight.nbytes(), std::byte{7});
  const host::StrategyState kept = run.script().strategy;
  save(session, folder.path() / "own");
  EXPECT_EQ(run.count("checkpoint"), 1);
  steps(session, net, 2);

  ScriptedRun again;
  torch::manual_seed(77);
  Learner other;
  Session continued(again.runtime(), other, other.configure_optimizers());
  load(continued, folder.path() / "own");
  EXPECT_EQ(continued.steps(), 3U);
  EXPECT_EQ(again.script().strategy.values, kept.values);
  EXPECT_EQ(again.script().strategy.buckets, kept.buckets);
  steps(continued, other, 2);
  EXPECT_EQ(weights_digest(other), weights_digest(net));

  EXPECT_THAT(mistake({.options = [&](Options& o) { o.resume = folder.path() / "own"; }}),
              HasSubstr("go on from it with cohort::load"));
}

}  // namespace
}  // namespace cohort::testing
