// Tensors of a fake device behave as the CPU's do: views, copies, moves, files, numbers at random.
#include <ATen/DLConvertor.h>

#include <sstream>

#include "backend.hpp"
#include "models.hpp"

namespace fake {
namespace {

using testing::HasSubstr;
using torch::Tensor;

class Tensors : public Backend {};
INSTANTIATE_TEST_SUITE_P(Work, Tensors, testing::Bool(), name_of_mode);

TEST_P(Tensors, AreNamedByTheirDevice) {
  const Tensor tensor = torch::ones({2}, c10::Device("fake:1"));
  EXPECT_EQ(tensor.device().str(), "fake:1");
  std::ostringstream printed;
  printed << tensor;
  EXPECT_THAT(printed.str(), HasSubstr("fakeFloatType{2}"));
  EXPECT_EQ(at::accelerator::getAccelerator(), torch::kPrivateUse1);
  EXPECT_EQ(at::accelerator::deviceCount(), 4);
  EXPECT_THAT(error_of([] { torch::ones({2}, c10::Device("fake:4")); }), HasSubstr("there is no device fake:4"));
}

TEST_P(Tensors, AreMadeOnTheCurrentDevice) {
  EXPECT_EQ(torch::ones({2}, torch::kPrivateUse1).device(), device(0));
  const c10::DeviceGuard on(device(1));
  EXPECT_EQ(torch::ones({2}, torch::kPrivateUse1).device(), device(1));
  EXPECT_EQ(torch::arange(3, torch::kPrivateUse1).device(), device(1));
  EXPECT_EQ(torch::tril_indices(3, 3, 0, torch::kPrivateUse1).device(), device(1));
}

TEST_P(Tensors, ShareMemoryWithTheirViews) {
  Tensor tensor = torch::zeros({4, 4}, device());
  tensor.unfold(0, 2, 2).select(0, 1).fill_(1);
  tensor.t().narrow(0, 0, 1).fill_(2);
  tensor.view({16}).select(0, 15).fill_(3);
  Tensor expected = torch::zeros({4, 4});
  expected.narrow(0, 2, 2).fill_(1);
  expected.narrow(1, 0, 1).fill_(2);
  expected[3][3] = 3;
  EXPECT_TRUE(have_equal_bits(tensor, expected));

  Tensor complex = torch::zeros({3}, torch::dtype(torch::kComplexFloat).device(device()));
  at::view_as_real(complex).select(1, 1).fill_(2);
  EXPECT_TRUE(have_equal_bits(at::imag(complex), torch::full({3}, 2.0f)));
  Tensor pairs = torch::zeros({3, 2}, device());
  at::view_as_complex(pairs).fill_(c10::complex<float>(1, 2));
  EXPECT_TRUE(have_equal_bits(pairs.select(1, 1), torch::full({3}, 2.0f)));
}

TEST_P(Tensors, CopyConjugatesAndNegatives) {
  const Tensor here = torch::randn({3, 2}, torch::kComplexFloat);
  const Tensor there = here.to(device());
  EXPECT_TRUE(have_equal_bits(there.conj(), here.conj().resolve_conj()));
  EXPECT_TRUE(have_equal_bits(there.conj().clone(), here.conj().clone()));
  EXPECT_TRUE(have_equal_bits(here.conj().to(device()), here.conj().resolve_conj()));
  EXPECT_TRUE(have_equal_bits(at::imag(there.conj()), at::imag(here.conj()).resolve_neg()));
  Tensor written = torch::zeros_like(there);
  written.conj().copy_(here);
  EXPECT_TRUE(have_equal_bits(written, here.conj().resolve_conj()));
  EXPECT_TRUE(have_equal_bits(there.conj().matmul(there.t()), here.conj().matmul(here.t())));
}

TEST_P(Tensors, CopyAcrossTypesStridesAndDevices) {
  const Tensor here = torch::randn({2, 3, 4, 5});
  for (const Tensor& given : {here, here.transpose(1, 3), here.slice(3, 0, 5, 2), here.expand({2, 3, 4, 5}),
                              here.contiguous(at::MemoryFormat::ChannelsLast)}) {
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kInt}) {
      const Tensor expected = given.to(type), there = given.to(device(), type);
      EXPECT_TRUE(have_equal_bits(there, expected));
      EXPECT_TRUE(have_equal_bits(given.to(device()).to(device(1), type), expected));
      EXPECT_TRUE(have_equal_bits(given.to(device()).to(torch::kCPU, type), expected));
    }
  }
  EXPECT_EQ(here.contiguous(at::MemoryFormat::ChannelsLast).to(device()).strides(),
            here.contiguous(at::MemoryFormat::ChannelsLast).strides());
  Tensor target = torch::zeros({3, 4}), other = torch::zeros({3, 4}, device(1));
  const Tensor row = torch::arange(4, torch::kFloat).to(device());
  target.t().copy_(row.unsqueeze(1));
  EXPECT_TRUE(have_equal_bits(target, row.cpu().expand({3, 4})));
  other.t().copy_(row.unsqueeze(1));
  EXPECT_TRUE(have_equal_bits(other, row.cpu().expand({3, 4})));
}

TEST_P(Tensors, ResizeWhatTakesResults) {
  const Tensor one = torch::randn({4, 4}, device());
  Tensor out = torch::empty({0}, device());
  at::add_out(out, one, one);
  EXPECT_TRUE(have_equal_bits(out, one.cpu() + one.cpu()));
  Tensor places = torch::empty({0}, torch::dtype(torch::kLong).device(device()));
  at::nonzero_out(places, one > 0);
  EXPECT_TRUE(have_equal_bits(places, at::nonzero(one.cpu() > 0)));
  Tensor grown = torch::ones({2}, device());
  grown.resize_({3}).narrow(0, 2, 1).fill_(5);
  EXPECT_TRUE(have_equal_bits(grown, torch::tensor({1.0f, 1.0f, 5.0f})));
  Tensor set = torch::empty({0}, device());
  set.set_(grown.storage(), 1, {2}, {1});
  set.mul_(2);
  EXPECT_TRUE(have_equal_bits(grown, torch::tensor({1.0f, 2.0f, 10.0f})));
}

class Silent final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

TEST_P(Tensors, RefuseResultsOfAnotherSize) {
  Silent silent;  // the CPU's kernel warns
  const c10::WarningUtils::WarningHandlerGuard no_warnings(&silent);
  const Tensor one = torch::ones({2, 2}, device());
  Tensor wrong = torch::empty({3, 3}, device());
  const std::string text = error_of([&] {
    at::add_out(wrong, one, one);
    wait();
  });
  EXPECT_THAT(text, HasSubstr("aten::add.out: an argument that takes results has the sizes [3, 3]"));
}

TEST_P(Tensors, RefuseOtherDevices) {
  const Tensor here = torch::ones({2}), one = torch::ones({2}, device()), two = torch::ones({2}, device(1));
  const char* const kTwo = "expected all tensors to be on the same device, but found at least two devices, fake:";
  const auto lower_case = [](std::string text) {
    if (!text.empty() && text[0] == 'E') text[0] = 'e';
    return text;
  };
  EXPECT_THAT(lower_case(error_of([&] { one + two; })), HasSubstr(kTwo));
  EXPECT_THAT(lower_case(error_of([&] { one + here; })), HasSubstr(kTwo));
  // Operators that LibTorch itself does not check.
  EXPECT_THAT(error_of([&] { one.masked_scatter(two > 0, one); }), HasSubstr(kTwo));
  EXPECT_THAT(error_of([&] { one.masked_scatter_(here > 0, one); }), HasSubstr("fake:0 and cpu"));
  EXPECT_THAT(error_of([&] { at::bernoulli(one, at::detail::createCPUGenerator()); }),
              HasSubstr("expected a generator of a fake device"));
  EXPECT_TRUE(have_equal_bits(one * torch::tensor(3.0f), torch::full({2}, 3.0f))) << "one number counts as a value";
  EXPECT_TRUE(have_equal_bits(one.index({torch::tensor({1, 0, 1})}), torch::ones({3}))) << "indices as well";
}

TEST_P(Tensors, TakeNumbersByValue) {
  Tensor scalar = torch::tensor(2.0f), tensor = torch::ones({3}, device());
  tensor.mul_(scalar);
  scalar.fill_(100);
  EXPECT_TRUE(have_equal_bits(tensor, torch::full({3}, 2.0f)));
  const Tensor counts = torch::ones({2}, torch::dtype(torch::kInt).device(device()));
  EXPECT_EQ((counts * 0.5).dtype(), torch::kFloat);
  EXPECT_TRUE(have_equal_bits(counts * 0.5, torch::full({2}, 0.5f)));
}

TEST_P(Tensors, DrawTheNumbersOfTheCpu) {
  for (const auto& draw : std::vector<std::function<Tensor(const torch::TensorOptions&)>>{
           [](const auto& options) { return torch::randn({5}, options); },
           [](const auto& options) { return torch::rand({5}, options); },
           [](const auto& options) { return torch::randperm(7, options.dtype(torch::kLong)); },
           [](const auto& options) { return torch::dropout(torch::ones({40}, options), 0.1, true); }}) {
    torch::manual_seed(5);
    const Tensor here = draw(torch::kCPU), second = draw(torch::kCPU);
    torch::manual_seed(5);
    const Tensor there = draw(device(1)), fourth = draw(device(1)), elsewhere = draw(device(0));
    EXPECT_TRUE(have_equal_bits(here, there));
    EXPECT_TRUE(have_equal_bits(second, fourth));
    EXPECT_TRUE(have_equal_bits(here, elsewhere)) << "each device has its own";
    EXPECT_FALSE(have_equal_bits(here, second));
  }
  at::Generator generator = at::globalContext().defaultGenerator(device()).clone();
  const Tensor state = generator.get_state();
  const Tensor first = torch::empty({5}, device()).normal_(0, 1, generator);
  generator.set_state(state);
  EXPECT_TRUE(have_equal_bits(first, torch::empty({5}, device()).normal_(0, 1, generator)));
}

TEST_P(Tensors, CrossDlpackBothWays) {
  Tensor tensor = torch::arange(6, device(1)).view({2, 3});
  DLManagedTensor* const managed = at::toDLPack(tensor);
  EXPECT_EQ(managed->dl_tensor.device.device_type, kDLExtDev);
  EXPECT_EQ(managed->dl_tensor.device.device_id, 1);
  Tensor again = at::fromDLPack(managed);
  EXPECT_EQ(again.device(), device(1));
  again.add_(1);
  EXPECT_TRUE(have_equal_bits(tensor, torch::arange(1, 7).view({2, 3})));
  Tensor over = torch::from_blob(tensor.data_ptr(), {3}, tensor.options());
  over.zero_();
  EXPECT_TRUE(have_equal_bits(tensor[0], torch::zeros({3}, torch::kLong)));
}

TEST_P(Tensors, CountTheirMemory) {
  const auto allocated = [] { return at::accelerator::getDeviceStats(0).allocated_bytes[0]; };
  at::accelerator::resetPeakStats(0);
  const int64_t before = allocated().current;
  EXPECT_EQ(allocated().peak, before);
  torch::empty({1 << 18}, device());
  EXPECT_EQ(allocated().current, before);
  EXPECT_EQ(allocated().peak, before + (1 << 20));
  const auto [free, total] = at::accelerator::getMemoryInfo(0);
  EXPECT_EQ(total - free, static_cast<size_t>(before));
  EXPECT_THROW(torch::empty({int64_t{1} << 40}, device()), c10::OutOfMemoryError);
}

TEST_P(Tensors, KeepRunningStatistics) {
  torch::nn::BatchNorm2d here(3), there(3);
  there->to(device());
  const Tensor input = torch::randn({4, 3, 2, 2});
  here(input);
  there(input.to(device()));
  EXPECT_TRUE(have_equal_bits(here->running_mean, there->running_mean));
  EXPECT_TRUE(have_equal_bits(here->running_var, there->running_var));
  EXPECT_FALSE(have_equal_bits(here->running_mean, torch::zeros({3})));
  here->eval();
  there->eval();
  EXPECT_TRUE(have_equal_bits(here(input), there(input.to(device()))));
}

TEST_P(Tensors, MoveWithTheirModule) {
  torch::nn::Linear model(4, 3);
  const Tensor weight = model->weight.detach().clone();
  Tensor& parameter = model->weight;
  model->to(device());
  EXPECT_EQ(parameter.device(), device());
  const auto copy = std::dynamic_pointer_cast<torch::nn::LinearImpl>(model->clone(device(1)));
  EXPECT_EQ(copy->weight.device(), device(1));
  EXPECT_TRUE(have_equal_bits(copy->weight, weight));
  model->to(torch::kCPU);
  EXPECT_TRUE(have_equal_bits(parameter, weight));
}

TEST_P(Tensors, AreComputedWithoutGradients) {
  const auto model = make_model("resnet");
  const auto [input, target] = model->batch();
  model->eval();
  const Tensor here = model->loss(input, target).detach();
  model->to(device(1));
  {
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(have_equal_bits(model->loss(input.to(device(1)), target.to(device(1))), here));
  }
  const c10::InferenceMode inference;
  const Tensor there = model->loss(input.to(device(1)), target.to(device(1)));
  EXPECT_TRUE(there.is_inference());
  EXPECT_TRUE(have_equal_bits(there, here));
}

TEST_P(Tensors, AreSavedAndLoaded) {
  torch::nn::Linear model(4, 3), loaded(4, 3);
  model->to(device(1));
  std::stringstream file;
  torch::save(model, file);
  torch::load(loaded, file);
  EXPECT_EQ(loaded->weight.device(), device(1));
  EXPECT_TRUE(have_equal_bits(model->weight, loaded->weight));
  std::stringstream other;
  torch::save(model->weight, other);
  Tensor here;
  torch::load(here, other, torch::kCPU);
  EXPECT_EQ(here.device(), torch::kCPU);
  EXPECT_TRUE(have_equal_bits(model->weight, here));
}

std::vector<Tensor> results_of_many_operators(const Tensor& x) {
  std::vector<Tensor> all{std::get<0>(at::topk(x, 2)),
                          std::get<1>(at::sort(x, 1)),
                          x.index({x > 0}),
                          x.masked_fill(x > 0, 1),
                          at::einsum("ij,kj->ik", {x, x}),
                          at::cat({x, x}, 1),
                          at::stack({x, x}),
                          at::where(x > 0, x, -x),
                          x.clone().index_put_({x > 0}, at::zeros({}, x.options())),
                          at::cumsum(x, 0),
                          at::layer_norm(x, {5}),
                          at::group_norm(x.view({6, 5, 1}), 5),
                          at::addr(x, x.select(1, 0), x.select(0, 0)),
                          at::any(x > 1, 1),
                          at::histc(x, 4),
                          at::eye(3, x.options())};
  std::vector<Tensor> lists{x.clone(), x.clone()};
  at::_foreach_mul_(lists, 3);
  at::_foreach_addcdiv_(lists, {x, x}, {x.exp(), x.exp()}, 2);
  for (const Tensor& norm : at::_foreach_norm(lists)) all.push_back(norm);
  for (const Tensor& part : x.split(2)) all.push_back(part.sum(0));
  all.insert(all.end(), lists.begin(), lists.end());
  return all;
}

TEST_P(Tensors, HaveTheResultsOfTheCpu) {
  const Tensor x = torch::randn({6, 5});
  const auto here = results_of_many_operators(x), there = results_of_many_operators(x.to(device()));
  for (size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(there[i].device(), device());
    EXPECT_TRUE(have_equal_bits(here[i], there[i])) << "result " << i;
  }
  EXPECT_TRUE(at::equal(x.to(device()), x.to(device())));
  EXPECT_EQ(x.to(device()).sum().item<float>(), x.sum().item<float>());
}

}  // namespace
}  // namespace fake
