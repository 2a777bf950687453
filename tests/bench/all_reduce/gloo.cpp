// Gloo itself over TCP on 127.0.0.1.
//
//   all_reduce_gloo --algorithm=ring|bcube|halving_doubling + contest flags
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <map>
#include <stdexcept>

#include "contest.hpp"
#include "temporary_folder.hpp"

namespace {

using cohort::bench::Contest;

std::shared_ptr<gloo::Context> connect(const std::string& folder, int rank, int size) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  context->connectFullMesh(store, device);
  return context;
}

/// The algorithms of today's interface.
class Options final : public cohort::bench::Contestant {
 public:
  Options(std::shared_ptr<gloo::Context> context, gloo::AllreduceOptions::Algorithm algorithm)
      : context_(std::move(context)), algorithm_(algorithm) {}

  void all_reduce(float* values, uint64_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(algorithm_);
    options.setOutput(values, count);
    using Sum = void (*)(void*, const void*, const void*, size_t);
    options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::Context> context_;
  gloo::AllreduceOptions::Algorithm algorithm_;
};

/// Faster than those for few bytes, but one object for each buffer; today's interface has no such algorithm.
class HalvingDoubling final : public cohort::bench::Contestant {
 public:
  HalvingDoubling(std::shared_ptr<gloo::Context> context, std::shared_ptr<gloo::Context> notes)
      : context_(std::move(context)), notes_(std::move(notes), gloo::AllreduceOptions::Algorithm::RING) {}

  void all_reduce(float* values, uint64_t count) override {
    auto& algorithm = algorithms_[{values, count}];
    if (!algorithm) {
      algorithm = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context_, std::vector<float*>{values},
                                                                          static_cast<int>(count));
    }
    algorithm->run();
  }

  // Both interfaces on one context stall each other.
  void agree(std::span<float> values) override { notes_.agree(values); }

 private:
  std::shared_ptr<gloo::Context> context_;
  std::map<std::pair<float*, uint64_t>, std::unique_ptr<gloo::Algorithm>> algorithms_;
  Options notes_;
};

std::unique_ptr<cohort::bench::Contestant> make_rank(const std::string& algorithm, const std::string& folder, int rank,
                                                     int size) {
  auto context = connect(folder + "/values", rank, size);
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  if (algorithm == "ring") return std::make_unique<Options>(std::move(context), Algorithm::RING);
  if (algorithm == "bcube") return std::make_unique<Options>(std::move(context), Algorithm::BCUBE);
  if (algorithm == "halving_doubling") {
    return std::make_unique<HalvingDoubling>(std::move(context), connect(folder + "/notes", rank, size));
  }
  throw std::invalid_argument("--algorithm=" + algorithm + " is unknown");
}

}  // namespace

int main(int argc, char** argv) {
  const cohort::testing::TemporaryFolder folder;
  return cohort::bench::compete_in_processes(argc, argv, [&](const Contest& contest) {
    std::filesystem::create_directory(folder.path() / "values");
    std::filesystem::create_directory(folder.path() / "notes");
    const std::string algorithm = contest.option("algorithm", "ring");
    return [&folder, algorithm, size = contest.ranks](int rank) {
      return make_rank(algorithm, folder.path().string(), rank, size);
    };
  });
}
