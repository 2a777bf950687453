#include "balanced_models.hpp"

#include <stdexcept>

namespace balanced_program {
namespace {

using torch::Tensor;

constexpr int64_t kLength = 12, kWidth = 16, kHeads = 2, kBlocks = 4, kSize = 8, kFeatures = 6, kSamplesSkipped = 8;

/// A classifier: Derived gives the scores, with the classes in dimension 1.
template <class Derived>
struct Model : cohort::ModuleFor<Derived> {
  explicit Model(Settings chosen) : settings(std::move(chosen)) {}
  std::shared_ptr<Derived> make() const override { return std::make_shared<Derived>(settings); }
  virtual Tensor scores(const Tensor& x) = 0;

  Tensor loss(const cohort::Batch& batch) { return torch::cross_entropy_loss(scores(batch[0]), batch[1]); }
  void fail_if_asked(const cohort::Batch& batch) const {
    if (batch[2].eq(settings.fail_at).any().template item<bool>()) throw std::runtime_error("the step is broken");
  }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    fail_if_asked(batch);
    const Tensor found = loss(batch);
    this->log("train_loss", found);
    return found;
  }
  void validation_step(const cohort::Batch& batch, int64_t) override { this->log("val_loss", loss(batch)); }
  void test_step(const cohort::Batch& batch, int64_t) override { this->log("test_loss", loss(batch)); }
  cohort::Output predict_step(const cohort::Batch& batch, int64_t) override { return scores(batch[0]); }
  cohort::Optimizers configure_optimizers() override {
    if (settings.optimizer == "lbfgs") return torch::optim::LBFGS(this->parameters(), 0.1);
    if (settings.optimizer == "sgd") {
      return torch::optim::SGD(this->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
    }
    return torch::optim::Adam(this->parameters(), 0.01);
  }

  Settings settings;
};

// ---- texts

struct BlockImpl final : torch::nn::Module {
  Tensor forward(Tensor x) {
    const auto shape = x.sizes().vec();  // batch, time, width
    const auto parts = qkv(norm1(x)).view({shape[0], shape[1], 3, kHeads, -1}).permute({2, 0, 3, 1, 4});
    const auto seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, is_training() ? 0.1 : 0.0,
                                                       /*is_causal=*/true);
    x = x + dropout(attended(seen.transpose(1, 2).reshape(shape)));
    return x + dropout(narrow(torch::gelu(widen(norm2(x)))));
  }

  torch::nn::LayerNorm norm1 = register_module("norm1", torch::nn::LayerNorm(std::vector{kWidth}));
  torch::nn::LayerNorm norm2 = register_module("norm2", torch::nn::LayerNorm(std::vector{kWidth}));
  torch::nn::Linear qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
  torch::nn::Linear attended = register_module("attended", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear widen = register_module("widen", torch::nn::Linear(kWidth, 2 * kWidth));
  torch::nn::Linear narrow = register_module("narrow", torch::nn::Linear(2 * kWidth, kWidth));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.2));
};
TORCH_MODULE(Block);

/// Embeddings and blocks of a GPT; what is on top of them is the derived class's.
template <class Derived>
struct GptBody : Model<Derived> {
  explicit GptBody(Settings chosen) : Model<Derived>(std::move(chosen)) {
    for (int64_t i = 0; i < kBlocks; ++i) blocks->push_back(Block());
  }
  Tensor hidden(const Tensor& tokens) {
    const auto places = torch::arange(tokens.size(1), tokens.options());
    return norm(blocks->forward(dropout(letters(tokens) + positions(places))));
  }

  torch::nn::Embedding letters = this->register_module("letters", torch::nn::Embedding(kClasses, kWidth));
  torch::nn::Embedding positions = this->register_module("positions", torch::nn::Embedding(kLength, kWidth));
  torch::nn::Dropout dropout = this->register_module("dropout", torch::nn::Dropout(0.2));
  torch::nn::Sequential blocks = this->register_module("blocks", torch::nn::Sequential());
  torch::nn::LayerNorm norm = this->register_module("norm", torch::nn::LayerNorm(std::vector{kWidth}));
};

struct Gpt final : GptBody<Gpt> {
  using GptBody<Gpt>::GptBody;
  Tensor scores(const Tensor& tokens) override { return head(hidden(tokens)).transpose(1, 2); }
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWidth, kClasses));
};

/// The last layer reads the weight of the first one.
struct TiedGpt final : GptBody<TiedGpt> {
  using GptBody<TiedGpt>::GptBody;
  Tensor scores(const Tensor& tokens) override {
    return torch::linear(hidden(tokens), letters->weight).transpose(1, 2);
  }
};

/// Layers of an LSTM in one operator, then a cell in a loop.
struct Lstm final : Model<Lstm> {
  using Model<Lstm>::Model;
  Tensor scores(const Tensor& tokens) override {
    const Tensor seen = std::get<0>(layers(letters(tokens)));
    std::tuple<Tensor, Tensor> state(seen.new_zeros({seen.size(0), kWidth}), seen.new_zeros({seen.size(0), kWidth}));
    std::vector<Tensor> steps;
    for (int64_t i = 0; i < seen.size(1); ++i) {
      state = cell(seen.select(1, i), state);
      steps.push_back(head(std::get<0>(state)));
    }
    return torch::stack(steps, 2);
  }

  torch::nn::Embedding letters = register_module("letters", torch::nn::Embedding(kClasses, kWidth));
  torch::nn::LSTM layers = register_module(
      "layers", torch::nn::LSTM(torch::nn::LSTMOptions(kWidth, kWidth).num_layers(2).batch_first(true)));
  torch::nn::LSTMCell cell = register_module("cell", torch::nn::LSTMCell(kWidth, kWidth));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWidth, kClasses));
};

// ---- images

torch::nn::Conv2d conv(int64_t in, int64_t out, int64_t size = 3, int64_t stride = 1) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

struct ResidualImpl final : torch::nn::Module {
  ResidualImpl(int64_t in, int64_t out, int64_t stride)
      : conv1(register_module("conv1", conv(in, out, 3, stride))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(out))),
        conv2(register_module("conv2", conv(out, out))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(out))),
        shortcut(register_module("shortcut", conv(in, out, 1, stride))) {}
  Tensor forward(const Tensor& x) { return torch::relu(bn2(conv2(torch::relu(bn1(conv1(x))))) + shortcut(x)); }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  torch::nn::Conv2d shortcut;
};
TORCH_MODULE(Residual);

/// Has a metric object beside its loss.
struct ResNet final : Model<ResNet> {
  using Model<ResNet>::Model;
  Tensor scores(const Tensor& x) override { return fc(layer2(layer1(torch::relu(bn(first(x))))).mean({2, 3})); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    fail_if_asked(batch);
    const Tensor given = scores(batch[0]);
    const Tensor found = torch::cross_entropy_loss(given, batch[1]);
    log("train_loss", found);
    accuracy.update(given, batch[1]);
    log("train_acc", accuracy);
    return found;
  }

  torch::nn::Conv2d first = register_module("first", conv(3, 8));
  torch::nn::BatchNorm2d bn = register_module("bn", torch::nn::BatchNorm2d(8));
  Residual layer1 = register_module("layer1", Residual(8, 8, 1));
  Residual layer2 = register_module("layer2", Residual(8, 16, 2));
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(16, kClasses));
  cohort::metric::Accuracy accuracy{cohort::metric::Multiclass{kClasses}};
};

/// A convolution, statistics of the batch and a ReLU that overwrites its input.
torch::nn::Sequential stage(int64_t in, int64_t out) {
  return torch::nn::Sequential(conv(in, out), torch::nn::BatchNorm2d(out),
                               torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
}

/// The last stages read what the first ones have made.
struct UNet final : Model<UNet> {
  using Model<UNet>::Model;
  Tensor scores(const Tensor& x) override {
    const Tensor fine = down1->forward(x);
    const Tensor coarse = down2->forward(torch::max_pool2d(fine, 2));
    const Tensor lowest = bottom->forward(torch::max_pool2d(coarse, 2));
    const Tensor risen = up2->forward(torch::cat({wide(lowest), coarse}, 1));
    return last(up1->forward(torch::cat({wide(risen), fine}, 1)));
  }
  static Tensor wide(const Tensor& x) { return x.repeat_interleave(2, 2).repeat_interleave(2, 3); }

  torch::nn::Sequential down1 = register_module("down1", stage(3, 6));
  torch::nn::Sequential down2 = register_module("down2", stage(6, 12));
  torch::nn::Sequential bottom = register_module("bottom", stage(12, 12));
  torch::nn::Sequential up2 = register_module("up2", stage(24, 6));
  torch::nn::Sequential up1 = register_module("up1", stage(12, 6));
  torch::nn::Conv2d last = register_module("last", conv(6, kClasses, 1));
};

// ---- points

/// Pieces of small values do without a block that has parameters.
struct Branch final : Model<Branch> {
  using Model<Branch>::Model;
  Tensor scores(const Tensor& x) override {
    Tensor hidden = torch::relu(first(x));
    if (x.sum().item<double>() > 0) hidden = hidden + torch::tanh(extra(hidden));
    return last(torch::relu(second(hidden)));
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kFeatures, kWidth));
  torch::nn::Linear extra = register_module("extra", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kWidth, kClasses));
};

/// The sign, with the gradient of the identity.
struct Sign final : torch::autograd::Function<Sign> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.sign(); }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               torch::autograd::tensor_list gradients) {
    return gradients;
  }
};

struct Signs final : Model<Signs> {
  using Model<Signs>::Model;
  Tensor scores(const Tensor& x) override { return last(Sign::apply(second(Sign::apply(first(x))))); }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kFeatures, kWidth));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kWidth, kClasses));
};

struct Gan final : Model<Gan> {
  using Model<Gan>::Model;
  Tensor scores(const Tensor& x) override { return judge->forward(x); }
  Tensor drawn(int64_t count) { return maker->forward(torch::randn({count, kWidth}, device())); }
  Tensor judged(const Tensor& x, double truth) {
    const Tensor found = judge->forward(x).select(1, 0);
    return torch::binary_cross_entropy_with_logits(found, torch::full_like(found, truth));
  }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    fail_if_asked(batch);
    const int64_t count = batch.batch_size();
    if (phase() == 0) return judged(drawn(count), 1);
    return judged(batch[0], 1) + judged(drawn(count).detach(), 0);
  }
  cohort::Optimizers configure_optimizers() override {
    return {{"maker", torch::optim::Adam(maker->parameters(), 0.01)},
            {"judge", torch::optim::Adam(judge->parameters(), 0.01)}};
  }
  static torch::nn::Sequential layers(int64_t in, int64_t out) {
    return torch::nn::Sequential(torch::nn::Linear(in, kWidth), torch::nn::LeakyReLU(), torch::nn::Linear(kWidth, out));
  }
  torch::nn::Sequential maker = register_module("maker", layers(kWidth, kFeatures));
  torch::nn::Sequential judge = register_module("judge", layers(kFeatures, kClasses));
};

/// Its loss compares all samples of a batch with each other.
struct Gathered final : Model<Gathered> {
  using Model<Gathered>::Model;
  Tensor scores(const Tensor& x) override { return last(torch::relu(first(x))); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    return cohort::Output::list({scores(batch[0]), batch[1]});
  }
  cohort::Output training_step_end(const cohort::Output& outputs) override {
    std::vector<Tensor> given, targets;
    for (const cohort::Output& output : outputs.items()) {
      given.push_back(output[0].tensor());
      targets.push_back(output[1].tensor());
    }
    log("outputs", static_cast<double>(given.size()));
    const Tensor all = torch::cat(given);
    return torch::cross_entropy_loss(all, torch::cat(targets)) + torch::softmax(all, 0).square().sum();
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kFeatures, kWidth));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kWidth, kClasses));
};

/// Two views of each sample go through the same layers, whose statistics both of them change.
struct Siamese final : Model<Siamese> {
  using Model<Siamese>::Model;
  Tensor encoded(const Tensor& x) { return torch::relu(second(torch::relu(bn(first(x))))); }
  Tensor scores(const Tensor& x) override { return last(encoded(x) + encoded(x.flip(1))); }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kFeatures, kWidth));
  torch::nn::BatchNorm1d bn = register_module("bn", torch::nn::BatchNorm1d(kWidth));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kWidth, kClasses));
};

/// A linear layer that its author has written.
struct Product final : torch::autograd::Function<Product> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& weight) {
    context->save_for_backward({x, weight});
    return x.mm(weight.t());
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0].mm(saved[1]), gradients[0].t().mm(saved[0])};
  }
};

/// Reads a buffer that it has overwritten, and gives weights to functions.
struct Products final : Model<Products> {
  using Model<Products>::Model;
  Tensor scores(const Tensor& x) override {
    const Tensor hidden = torch::relu(Product::apply(torch::relu(first(x)), second));
    if (is_training()) {
      const torch::NoGradGuard no_gradient;
      mean.mul_(0.9).add_(hidden.mean(0), 0.1);
    }
    return last(torch::relu(third(hidden - mean)));
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kFeatures, kWidth));
  Tensor second = register_parameter("second", torch::randn({kWidth, kWidth}) / 4);
  Tensor mean = register_buffer("mean", torch::zeros({kWidth}));
  torch::nn::Linear third = register_module("third", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kWidth, kClasses));
};

// ---- what cannot be cut

/// Takes the gradient of its scores within the step.
struct Penalty final : Model<Penalty> {
  using Model<Penalty>::Model;
  Tensor scores(const Tensor& x) override { return last(torch::relu(first(x))); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    const Tensor x = batch[0].clone().requires_grad_();
    const Tensor given = scores(x);
    const Tensor slope = torch::autograd::grad({given.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    return torch::cross_entropy_loss(given, batch[1]) + slope.square().mean();
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kFeatures, kWidth));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kWidth, kClasses));
};

struct ByHand final : Model<ByHand> {
  using Model<ByHand>::Model;
  bool automatic_optimization() const override { return false; }
  Tensor scores(const Tensor& x) override { return last(torch::relu(first(x))); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    manual_backward(loss(batch));
    step();
    return {};
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kFeatures, kWidth));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kWidth, kClasses));
};

struct NoClone final : cohort::Module {
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    return torch::cross_entropy_loss(last(torch::relu(first(batch[0]))), batch[1]);
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kFeatures, kWidth));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kWidth, kClasses));
};

}  // namespace

std::vector<Tensor> samples_of(const std::string& model, int64_t count, uint64_t seed) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto labels = [&](at::IntArrayRef sizes) { return torch::randint(kClasses, sizes, generator, torch::kLong); };
  const Tensor numbers = torch::arange(count);
  if (model == "gpt" || model == "tied_gpt" || model == "lstm") {
    const Tensor text = labels({count, kLength + 1});
    return {text.slice(1, 0, kLength).contiguous(), text.slice(1, 1).contiguous(), numbers};
  }
  if (model == "resnet" || model == "unet") {
    const Tensor images = torch::randn({count, 3, kSize, kSize}, generator);
    return {images, model == "unet" ? labels({count, kSize, kSize}) : labels({count}), numbers};
  }
  const Tensor points = torch::randn({count, kFeatures}, generator);
  if (model == "branch") points.slice(0, 0, kSamplesSkipped).abs_().neg_();  // no piece of the first batch branches off
  return {points, labels({count}), numbers};
}

std::shared_ptr<cohort::Module> make_model(const Settings& settings) {
  const std::string& model = settings.model;
  if (model == "gpt") return std::make_shared<Gpt>(settings);
  if (model == "tied_gpt") return std::make_shared<TiedGpt>(settings);
  if (model == "resnet") return std::make_shared<ResNet>(settings);
  if (model == "unet") return std::make_shared<UNet>(settings);
  if (model == "lstm") return std::make_shared<Lstm>(settings);
  if (model == "branch") return std::make_shared<Branch>(settings);
  if (model == "signs") return std::make_shared<Signs>(settings);
  if (model == "gan") return std::make_shared<Gan>(settings);
  if (model == "gathered") return std::make_shared<Gathered>(settings);
  if (model == "siamese") return std::make_shared<Siamese>(settings);
  if (model == "products") return std::make_shared<Products>(settings);
  if (model == "corners") return make_corners();
  if (model == "penalty") return std::make_shared<Penalty>(settings);
  if (model == "by_hand") return std::make_shared<ByHand>(settings);
  if (model == "no_clone") return std::make_shared<NoClone>();
  throw cohort::UserError("--model=" + model + " is unknown");
}

}  // namespace balanced_program
