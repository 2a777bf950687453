// Backward passes, replicas and autocast on fake devices.
#include <ATen/autocast_mode.h>

#include <atomic>
#include <thread>

#include "backend.hpp"
#include "models.hpp"

namespace fake {
namespace {

using testing::HasSubstr;
using torch::Tensor;

class Gradients : public Backend {};
INSTANTIATE_TEST_SUITE_P(Work, Gradients, testing::Bool(), name_of_mode);

TEST_P(Gradients, CrossDevices) {
  const auto gradients = [](torch::Device first, torch::Device second) {
    torch::manual_seed(3);
    const Tensor a = torch::randn({4, 4}).to(first).requires_grad_(),
                 b = torch::randn({4, 4}).to(second).requires_grad_();
    const Tensor c = torch::randn({4, 4}).requires_grad_();
    ((a.mm(a).to(second) * b).tanh().to(torch::kCPU) * c).sum().backward();
    return std::vector<Tensor>{a.grad(), b.grad(), c.grad()};
  };
  const auto here = gradients(torch::kCPU, torch::kCPU), there = gradients(device(0), device(1));
  for (size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(have_equal_bits(here[i], there[i]));
  EXPECT_EQ(there[0].device(), device(0));
  EXPECT_EQ(there[1].device(), device(1));
}

TEST_P(Gradients, RunHooksOnTheForwardsStream) {
  const c10::Stream stream = guard().getNewStream(device(1));
  const WithStream with(stream);
  const Tensor weight = torch::ones({4}, torch::device(device(1)).requires_grad(true));
  std::optional<c10::Stream> seen;
  std::optional<c10::Device> current;
  weight.register_hook([&](const Tensor& gradient) {
    seen = guard().getStream(gradient.device());
    current = guard().getDevice();
  });
  (weight * 2).sum().backward();
  EXPECT_EQ(seen, stream);
  EXPECT_EQ(current, device(1));
  EXPECT_TRUE(have_equal_bits(weight.grad(), torch::full({4}, 2.0f)));
}

TEST_P(Gradients, NameAMissingOrderInAHook) {
  const c10::Stream collective = guard().getNewStream(device());
  for (const bool is_ordered : {true, false}) {
    const Tensor weight = torch::ones({4}, torch::device(device()).requires_grad(true));
    const Tensor sum = torch::zeros({4}, device());
    wait();
    weight.register_hook([&](const Tensor& gradient) {
      if (is_ordered) order(collective, guard().getStream(device()));
      gradient.record_stream(collective);
      const WithStream with(collective);
      sum.add_(gradient);
    });
    const std::string text = error_of([&] { (weight * 2).sum().backward(); });
    collective.synchronize();
    if (is_ordered) {
      EXPECT_EQ(text, "");
      EXPECT_TRUE(have_equal_bits(sum, torch::full({4}, 2.0f)));
    } else {
      EXPECT_THAT(text, HasSubstr("and nothing orders the two"));
    }
  }
}

TEST_P(Gradients, BringExceptionsOfHooksToTheCaller) {
  struct Own : std::exception {};
  const Tensor weight = torch::ones({4}, torch::device(device()).requires_grad(true));
  const auto handle = weight.register_hook([](const Tensor&) { throw Own(); });
  EXPECT_THROW((weight * 2).sum().backward(), Own);
  weight.remove_hook(handle);
  (weight * 2).sum().backward();
  EXPECT_TRUE(have_equal_bits(weight.grad(), torch::full({4}, 2.0f)));
}

TEST_P(Gradients, OfReplicasInThreadsAreRight) {
  std::vector<std::vector<Tensor>> results(2);
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  const auto replica = [](torch::Device on) {
    const c10::OptionalDeviceGuard current(on.is_cpu() ? std::nullopt : std::optional(on));
    Tensor weight = torch::full({8, 8}, 0.1f, on).requires_grad_();
    torch::optim::SGD optimizer({weight}, 0.1);
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      torch::relu(weight.mm(weight)).sum().backward();
      optimizer.step();
    }
    return std::vector<Tensor>{weight.detach().cpu()};
  };
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      at::set_num_threads(1);
      try {
        results[static_cast<size_t>(index)] = replica(device(index));
      } catch (const std::exception&) {
        ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(failed, 0);
  for (const auto& result : results) EXPECT_TRUE(have_equal_bits(result[0], replica(torch::kCPU)[0]));
}

class Autocast {
 public:
  explicit Autocast(at::ScalarType type) {
    at::autocast::set_autocast_dtype(torch::kPrivateUse1, type);
    at::autocast::set_autocast_enabled(torch::kPrivateUse1, true);
  }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(torch::kPrivateUse1, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

TEST_P(Gradients, UseTheTypesOfAutocast) {
  torch::nn::Linear model(8, 4);
  const Tensor input = torch::randn({3, 8});
  const Tensor expected = torch::softmax(model(input), 1).detach();
  model->to(device());
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    model->zero_grad();
    Tensor output, probabilities;
    {
      const Autocast autocast(type);
      output = model(input.to(device()));
      probabilities = torch::softmax(output, 1);
    }
    EXPECT_EQ(output.scalar_type(), type);
    EXPECT_EQ(probabilities.scalar_type(), torch::kFloat);
    EXPECT_TRUE(torch::allclose(probabilities.cpu(), expected, 0.05, 0.05));
    probabilities.square().sum().backward();
    EXPECT_EQ(model->weight.grad().scalar_type(), torch::kFloat);
    EXPECT_TRUE(model->weight.grad().isfinite().all().item<bool>());
  }
}

TEST_P(Gradients, AreUnscaledAndChecked) {
  std::vector<Tensor> gradients{torch::full({4}, 8.0f, device()), torch::ones({2}, device())};
  Tensor found = torch::zeros({1}, device()), scale = torch::full({1}, 4.0f, device());
  Tensor tracker = torch::zeros({1}, torch::dtype(torch::kInt).device(device()));
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, scale.reciprocal());
  EXPECT_TRUE(have_equal_bits(gradients[0], torch::full({4}, 2.0f)));
  EXPECT_EQ(found.item<float>(), 0.0f);
  gradients[1].fill_(std::numeric_limits<float>::infinity());
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, scale.reciprocal());
  EXPECT_EQ(found.item<float>(), 1.0f);
  at::_amp_update_scale_(scale, tracker, found, 2.0, 0.5, 2000);
  EXPECT_EQ(scale.item<float>(), 2.0f);
}

}  // namespace
}  // namespace fake
