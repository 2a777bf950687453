// c10d::ProcessGroupGloo of our LibTorch, driven from C++.
//
//   all_reduce_process_group_gloo + contest flags
#define USE_C10D_GLOO
#include <ATen/ops/from_blob.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "contest.hpp"
#include "temporary_folder.hpp"

namespace {

using cohort::bench::Contest;

class ProcessGroupRank final : public cohort::bench::Contestant {
 public:
  ProcessGroupRank(const std::string& file, int rank, int size) {
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::FileStore>(file, size), rank, size,
                                                         options);
  }

  void all_reduce(float* values, uint64_t count) override {
    std::vector<at::Tensor> tensors{at::from_blob(values, {static_cast<int64_t>(count)}, at::kFloat)};
    group_->allreduce(tensors)->wait();
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

int main(int argc, char** argv) {
  const cohort::testing::TemporaryFolder folder;
  return cohort::bench::compete_in_processes(argc, argv, [&](const Contest& contest) {
    return [&folder, size = contest.ranks](int rank) {
      return std::make_unique<ProcessGroupRank>(folder.path() / "store", rank, size);
    };
  });
}
