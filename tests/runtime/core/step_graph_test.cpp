// Captures of work on the fake device, and what is said of devices that have none.
#include <cohort/step_graph.hpp>

#include <functional>
#include <string>

#include <cohort/host/error.hpp>

#include "backend.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;

const host::TorchDeviceType kFake{"fake", COHORT_DEVICE_EXT, FAKE_TORCH_LIBRARY, FAKE_TORCH_LIBRARY};

class Captured : public testing::Test {
 protected:
  static void SetUpTestSuite() { fake::open_backend(); }
  void TearDown() override { fake::wait(); }

  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }
};

TEST_F(Captured, IsReplayedWithWhatItsTensorsHold) {
  const fake::WithStream with(fake::guard().getNewStream(fake::device(), -1));
  torch::Tensor input = torch::ones({4}, fake::device());
  StepGraph graph(kFake, fake::device());
  torch::Tensor output;
  graph.capture([&] { output = at::relu(input).mul(3); });
  input.fill_(2);
  graph.replay();
  EXPECT_TRUE(fake::have_equal_bits(output, torch::full({4}, 6.0f)));
}

TEST_F(Captured, SaysWhatIsWrong) {
  StepGraph on_default_stream(kFake, fake::device());
  EXPECT_EQ(refusal([&] { on_default_stream.capture([] {}); }),
            "a step cannot be captured: the default stream of a device cannot capture; leave --graph out");
  const fake::WithStream with(fake::guard().getNewStream(fake::device(), -1));
  StepGraph graph(kFake, fake::device());
  const auto wait = [] {
    EXPECT_THAT(fake::error_of([] { fake::guard().synchronizeStream(fake::guard().getStream(fake::device())); }),
                HasSubstr("not permitted"));
  };
  EXPECT_THAT(refusal([&] { graph.capture(wait); }), HasSubstr("a wait of the host"));
  EXPECT_THROW(graph.replay(), TrainingFailed);
}

TEST_F(Captured, NeedsALibraryThatCaptures) {
  EXPECT_THAT(refusal([] {
                StepGraph({"cpu", COHORT_DEVICE_CPU, ""}, c10::kCPU);
              }),
              HasSubstr("the CPU runs its work at once"));
  EXPECT_THAT(
      refusal([] {
        StepGraph({"other", COHORT_DEVICE_EXT, "", "libm.so.6"}, fake::device());
      }),
      HasSubstr("--graph: nothing here captures work of 'other' devices (libm.so.6 has no cohort_step_graphs_1, "
                "and the accelerator brings no libcohort_graphs_other.so); leave --graph out"));
  EXPECT_THAT(refusal([] {
                StepGraph({"other", COHORT_DEVICE_EXT, "", "libnowhere.so"}, fake::device());
              }),
              HasSubstr("(libnowhere.so: cannot open shared object file"));
}

}  // namespace
}  // namespace cohort
