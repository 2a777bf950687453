#include <cohort/weights.hpp>

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/module.hpp>
#include <cohort/safetensors.hpp>

#include "error_text.hpp"
#include "module/model_table.hpp"
#include "temporary_folder.hpp"
#include "warnings.hpp"
#include "weights/named_tensors.hpp"
#include "weights/safetensors_header.hpp"
#include "weights/sha256.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;
using testing::Warnings;

struct Normalized final : ModuleFor<Normalized> {
  Normalized()
      : scale(register_parameter("scale", torch::ones({1}))),
        fc(register_module("fc", torch::nn::Linear(3, 2))),
        bn(register_module("bn", torch::nn::BatchNorm1d(2))) {}
  at::Tensor scale;
  torch::nn::Linear fc;
  torch::nn::BatchNorm1d bn;
};

std::string digest_of(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.finish();
}

// From FIPS 180-4's examples and NIST's test vectors.
TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(WeightsDigest, CoversTheParametersInRegistrationOrder) {
  const Normalized net;
  std::string bytes;
  for (const auto& p : {net.scale, net.fc->weight, net.fc->bias, net.bn->weight, net.bn->bias}) {
    bytes.append(static_cast<const char*>(p.const_data_ptr()), p.nbytes());
  }
  EXPECT_EQ(weights_digest(net), digest_of(bytes));
}

TEST(Safetensors, ReadsAFileThatPythonWrote) {
  const auto file = read_safetensors(COHORT_TEST_DATA "/from_python.safetensors");
  EXPECT_TRUE(torch::equal(*file.find("fc.weight"), torch::arange(6).to(torch::kFloat).view({2, 3})));
  EXPECT_EQ(file.find("count")->item<int64_t>(), 7);
  EXPECT_EQ(file.find("count")->dim(), 0);
  EXPECT_THAT(file.find("empty")->sizes().vec(), ElementsAre(0, 4));
  EXPECT_TRUE(torch::equal(*file.find("flags"), torch::tensor({true, false})));
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(Safetensors, GivesBackEveryDtypeAsWritten) {
  const TemporaryFolder folder;
  NamedTensors tensors;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
                          at::kByte, at::kBool}) {
    tensors.emplace_back(c10::toString(type), torch::arange(6).to(type).view({2, 3}).t());
  }
  write_safetensors(folder.path() / "all", tensors, {{"note", "by cohort"}});
  const auto file = read_safetensors(folder.path() / "all");
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(torch::equal(*file.find(name), tensor)) << name;
  EXPECT_EQ(file.metadata.at("note"), "by cohort");
}

// Headers as safetensors.torch writes them.
TEST(Safetensors, HasTheTypesOfEightAndFourBits) {
  const TemporaryFolder folder;
  const struct {
    at::ScalarType type;
    std::string header;
  } kinds[] = {{at::kFloat8_e8m0fnu, R"({"a":{"dtype":"F8_E8M0","shape":[4,6],"data_offsets":[0,24]}})"},
               {at::kFloat8_e4m3fnuz, R"({"a":{"dtype":"F8_E4M3FNUZ","shape":[4,6],"data_offsets":[0,24]}})"},
               {at::kFloat8_e5m2fnuz, R"({"a":{"dtype":"F8_E5M2FNUZ","shape":[4,6],"data_offsets":[0,24]}})"},
               {at::kFloat4_e2m1fn_x2, R"({"a":{"dtype":"F4","shape":[4,12],"data_offsets":[0,24]}})"}};
  const auto bytes = torch::arange(24).to(torch::kByte).view({4, 6});
  for (const auto& [type, header] : kinds) {
    write_safetensors(folder.path() / "w", {{"a", bytes.view(type)}});
    EXPECT_THAT(folder.read("w"), HasSubstr(header));
    const auto read = read_safetensors(folder.path() / "w").tensors.front().second;
    EXPECT_EQ(read.scalar_type(), type);
    EXPECT_TRUE(torch::equal(read.view(torch::kByte), bytes)) << header;
  }
}

/// Writes a file with a float32 'scale' of 9 behind a tensor of a type.
std::filesystem::path file_with(const TemporaryFolder& folder, const std::string& name, const std::string& type) {
  std::string header = R"({")" + name + R"(":{"dtype":")" + type + R"(","shape":[4],"data_offsets":[0,3]},)" +
                       R"("scale":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})";
  const uint64_t length = header.size();
  const float nine = 9;
  return folder.write("w", std::string(reinterpret_cast<const char*>(&length), 8) + header + "abc" +
                               std::string(reinterpret_cast<const char*>(&nine), 4));
}

TEST(Safetensors, OneTypeThatIsNotKnownKeepsNoOtherAway) {
  const TemporaryFolder folder;
  const auto file = read_safetensors(file_with(folder, "codes", "F6_E2M3"));
  EXPECT_EQ(file.find("scale")->item<float>(), 9);
  EXPECT_THAT(error_text<UserError>([&] { file.find("codes"); }),
              AllOf(HasSubstr("cohort cannot read the type F6_E2M3 of tensor 'codes'"), HasSubstr("/w: ")));
  Normalized net;
  EXPECT_THAT(load_weights(net, folder.path() / "w", /*strict=*/false).unexpected, ElementsAre("codes"));
  EXPECT_EQ(net.scale.item<float>(), 9);
  file_with(folder, "fc.weight", "F6_E2M3");
  EXPECT_THAT(error_text<UserError>([&] { load_weights(net, folder.path() / "w", /*strict=*/false); }),
              HasSubstr("cohort cannot read the type F6_E2M3 of tensor 'fc.weight'"));
}

TEST(Safetensors, LeavesTheOldFileWhereTheNewOneCannotBeWritten) {
  const TemporaryFolder folder;
  folder.write("weights", "old");
  const NamedTensors twice{{"a", torch::ones({1})}, {"a", torch::ones({1})}};
  EXPECT_THAT(error_text<UserError>([&] { write_safetensors(folder.path() / "weights", twice); }),
              HasSubstr("'a' is the name of two tensors"));
  EXPECT_THAT(error_text<UserError>([&] {
                write_safetensors(folder.path() / "weights", {{"\xff\n", torch::ones({1})}});
              }),
              HasSubstr("is no UTF-8, as names in safetensors files must be"));
  EXPECT_EQ(folder.read("weights"), "old");
  EXPECT_THAT(error_text<UserError>([&] { write_safetensors(folder.path() / "no" / "such", {}); }),
              HasSubstr("No such file"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

std::string header_fails(std::string_view json, uint64_t data_bytes) {
  return error_text<UserError>([&] { parse_safetensors_header(json, data_bytes, "w.safetensors"); });
}

std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(SafetensorsHeader, AcceptsWhatFits) {
  EXPECT_EQ(header_fails(one_tensor("\"F32\"", "[2,2]", "[0,16]"), 16), "");
  EXPECT_EQ(header_fails(one_tensor("\"F31\"", "[3]", "[0,16]"), 16), "") << "a type that is not known has any size";
  EXPECT_EQ(header_fails("{}", 0), "");
}

TEST(SafetensorsHeader, EveryLieIsFoundAndTheFileNamed) {
  const struct {
    std::string json;
    uint64_t data_bytes;
    const char* complaint;
  } lies[] = {
      {"", 0, "not a JSON object"},
      {"[1]", 0, "not a JSON object"},
      {"{\"t\":3}", 0, "lacks dtype"},
      {"{\"t\":{\"dtype\":\"F32\"}}", 0, "lacks dtype"},
      {R"({"__metadata__":3})", 0, "__metadata__"},
      {R"({"__metadata__":{"a":3}})", 0, "__metadata__"},
      {one_tensor("7", "[1]", "[0,4]"), 4, "dtype that is no text but number"},
      {one_tensor("\"F31\"", "[1]", "[0,8]"), 4, "outside"},
      {one_tensor("\"F31\"", "[1]", "[0,3]"), 4, "take 3 bytes"},
      {one_tensor("\"F4\"", "[2,3]", "[0,3]"), 3, "odd number"},
      {one_tensor("\"F4\"", "[]", "[0,1]"), 1, "odd number"},
      {one_tensor("\"F4\"", "[4]", "[0,4]"), 4, "needs 2 bytes"},
      {one_tensor("\"F32\"", "7", "[0,4]"), 4, "shape"},
      {one_tensor("\"F32\"", "[-1]", "[0,4]"), 4, "natural number"},
      {one_tensor("\"F32\"", "[1.5]", "[0,4]"), 4, "natural number"},
      {one_tensor("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "overflows"},
      {one_tensor("\"F32\"", "[0,18446744073709551615]", "[0,0]"), 0, "overflows"},
      {one_tensor("\"F32\"", "[1]", "[0]"), 4, "data_offsets"},
      {one_tensor("\"F32\"", "[1]", "[0,-4]"), 4, "data_offsets"},
      {one_tensor("\"F32\"", "[1]", "[4,0]"), 4, "outside"},
      {one_tensor("\"F32\"", "[2]", "[0,8]"), 4, "outside"},
      {one_tensor("\"F32\"", "[1]", "[0,3]"), 4, "needs 4 bytes"},
      {one_tensor("\"F32\"", "[1]", "[4,8]"), 8, "gap"},
      {one_tensor("\"F32\"", "[1]", "[0,4]"), 8, "take 4 bytes"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})",
       5, "overlaps"},
  };
  for (const auto& lie : lies) {
    EXPECT_THAT(header_fails(lie.json, lie.data_bytes), AllOf(HasSubstr("w.safetensors"), HasSubstr(lie.complaint)))
        << lie.json;
  }
}

TEST(Safetensors, RefusesFilesThatAreNone) {
  const TemporaryFolder folder;
  const auto message = [&](std::string_view content) {
    return error_text<UserError>([&] { read_safetensors(folder.write("bad", content)); });
  };
  EXPECT_THAT(message(""), HasSubstr("only 0 bytes"));
  EXPECT_THAT(message(std::string(8, '\xff')), HasSubstr("claims"));
  EXPECT_THAT(message(std::string("\x09\0\0\0\0\0\0\0{}", 10)), HasSubstr("claims 9 bytes"));
  EXPECT_THAT(message(std::string("\x04\0\0\0\0\0\0\0{{{{", 12)), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_text<UserError>([] { read_safetensors("/nowhere/w"); }), HasSubstr("/nowhere/w"));
  EXPECT_NE(error_text<UserError>([&] { read_safetensors(folder.path()); }), "");
}

TEST(Safetensors, NamesOtherFormatsAndWhatToDoWithThem) {
  const TemporaryFolder folder;
  const auto message = [&](std::string_view content) {
    return error_text<UserError>([&] { read_safetensors(folder.write("w", content)); });
  };
  using namespace std::string_view_literals;
  EXPECT_THAT(message("PK\x03\x04\0\0\x08\x08\0\0\0\0"sv), AllOf(HasSubstr("torch.save"), HasSubstr("save_file")));
  EXPECT_THAT(message("\x80\x02\x8a\nl\xfc\x9c\x46\xf9"sv), HasSubstr("pickle"));
  EXPECT_THAT(message("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(message(R"({"metadata": {"total_size": 1}, "weight_map": {}})"), HasSubstr("index of a model"));
  EXPECT_THAT(message("<!DOCTYPE html><html>404</html>"), HasSubstr("web page"));
  EXPECT_THAT(message("\x89HDF\r\n\x1a\n--------"), HasSubstr("Keras"));
}

TEST(Weights, ComeBackIntoAnotherModuleOfTheSameShape) {
  const TemporaryFolder folder;
  Normalized net, other;
  net.bn->running_mean.fill_(5);
  save_weights(net, folder.path() / "w");
  load_weights(other, folder.path() / "w");
  EXPECT_EQ(weights_digest(net), weights_digest(other));
  EXPECT_TRUE(torch::equal(other.bn->running_mean, net.bn->running_mean));
}

TEST(Weights, AreConvertedToTheModulesDtype) {
  const TemporaryFolder folder;
  Normalized net, wide;
  save_weights(net, folder.path() / "w");
  wide.to(torch::kDouble);
  load_weights(wide, folder.path() / "w");
  EXPECT_TRUE(torch::equal(wide.fc->weight, net.fc->weight.to(torch::kDouble)));
}

TEST(Weights, NamesWhatDoesNotFitAndChangesNothingThen) {
  const TemporaryFolder folder;
  Normalized net;
  const auto before = weights_digest(net);
  const auto message = [&](const NamedTensors& tensors) {
    write_safetensors(folder.path() / "w", tensors);
    return error_text<UserError>([&] { load_weights(net, folder.path() / "w"); });
  };
  EXPECT_THAT(message({{"fc.weight", torch::ones({2, 3})}}), HasSubstr("no tensor 'scale'"));
  EXPECT_THAT(message({{"scale", torch::ones({1})}, {"fc.weight", torch::ones({3, 2})}}),
              HasSubstr("shape [3, 2], the model has [2, 3]"));
  save_weights(net, folder.path() / "w");
  auto all = read_safetensors(folder.path() / "w").tensors;
  all.emplace_back("extra", torch::ones({1}));
  EXPECT_THAT(message(all), HasSubstr("'extra', which the model does not have"));
  all.back().first = "two\nlines";
  EXPECT_THAT(message(all), ::testing::Not(HasSubstr("\n")));
  EXPECT_EQ(weights_digest(net), before);
}

TEST(Weights, NamesBehindAPrefixAreToldWithTheWayOut) {
  const TemporaryFolder folder;
  Normalized net;
  save_weights(net, folder.path() / "plain");
  const auto message = [&](torch::nn::Module& module, const std::string& prefix) {
    NamedTensors named;
    for (const auto& [name, tensor] : read_safetensors(folder.path() / "plain").tensors)
      named.emplace_back(prefix + name, tensor);
    write_safetensors(folder.path() / "w", named);
    return error_text<UserError>([&] { load_weights(module, folder.path() / "w"); });
  };
  EXPECT_THAT(message(net, "module."),
              AllOf(HasSubstr("has no tensor 'scale'"), HasSubstr("has 'module.scale', as DistributedDataParallel"),
                    HasSubstr("state_dict of model.module")));
  EXPECT_THAT(message(net, "_orig_mod."),
              HasSubstr("as torch.compile names them; save the state_dict of model._orig_mod"));
  EXPECT_THAT(message(net, "net.body."), HasSubstr("state_dict of model.net.body in Python, or take 'net.body.'"));
  torch::nn::Module wrapper;
  wrapper.register_module("body", std::shared_ptr<torch::nn::Module>(&net, [](auto*) {}));
  EXPECT_THAT(message(wrapper, ""), HasSubstr("load_weights(*net.body, file)"));
}

TEST(Weights, APartOfACheckpointIsSentToLoadModule) {
  const TemporaryFolder folder;
  Normalized net;
  auto tensors = named_state_of(net);
  tensors.emplace_back("optimizer.step.scale", torch::ones({1}));
  write_safetensors(folder.path() / "shared.safetensors", tensors);
  folder.write("manifest.json", "{}");
  EXPECT_THAT(error_text<UserError>([&] { load_weights(net, folder.path() / "shared.safetensors"); }),
              AllOf(HasSubstr("part of a checkpoint"), HasSubstr("cohort::load_module(module, folder)")));
}

TEST(Weights, PartialFilesAreTakenWhereThatIsAskedFor) {
  const TemporaryFolder folder;
  Normalized net;
  write_safetensors(folder.path() / "w", {{"scale", torch::full({1}, 9.0)}, {"extra", torch::ones({1})}});
  const Warnings warnings;
  const NamesApart apart = load_weights(net, folder.path() / "w", /*strict=*/false);
  EXPECT_EQ(net.scale.item<float>(), 9);
  EXPECT_THAT(apart.missing, ElementsAre("fc.weight", "fc.bias", "bn.weight", "bn.bias", "bn.running_mean",
                                         "bn.running_var", "bn.num_batches_tracked"));
  EXPECT_THAT(apart.unexpected, ElementsAre("extra"));
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST(Weights, AFileOfWhichNoNameIsKnownIsAWarning) {
  const TemporaryFolder folder;
  Normalized net;
  const std::string before = weights_digest(net);
  write_safetensors(folder.path() / "w", {{"module.scale", torch::full({1}, 9.0)}});
  const Warnings warnings;
  EXPECT_EQ(load_weights(net, folder.path() / "w", /*strict=*/false).missing.size(), 8U);
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("there is 'module.scale', the model has 'scale'")));
  EXPECT_EQ(weights_digest(net), before);
}

TEST(ModelTable, HasARowForEachChildAndTheSums) {
  Normalized net;
  for (auto& p : net.bn->parameters()) p.set_requires_grad(false);
  EXPECT_EQ(model_table(net),
            "  | Name  | Type        | Params\n"
            "--------------------------------\n"
            "0 | scale | Parameter   | 1\n"
            "1 | fc    | Linear      | 8\n"
            "2 | bn    | BatchNorm1d | 4\n"
            "--------------------------------\n"
            "9           Trainable params\n"
            "4           Non-trainable params\n"
            "13          Total params\n"
            "0.000       Total estimated model params size (MB)");
}

TEST(ModelTable, GroupsTheDigitsOfLargeNumbers) {
  struct Wide final : ModuleFor<Wide> {
    Wide() { register_module("fc", torch::nn::Linear(1000, 1234)); }
  };
  EXPECT_THAT(model_table(Wide()), HasSubstr("0 | fc   | Linear | 1,235,234\n"));
}

TEST(ModuleFor, AClonesTensorsAreEqualAndItsOwn) {
  Normalized net;
  net.fc->weight.set_requires_grad(false);
  net.bn->running_var.fill_(3);
  net.eval();
  const auto copy = std::dynamic_pointer_cast<Normalized>(net.clone());
  EXPECT_EQ(weights_digest(*copy), weights_digest(net));
  EXPECT_TRUE(torch::equal(copy->bn->running_var, net.bn->running_var));
  EXPECT_FALSE(copy->fc->weight.requires_grad());
  EXPECT_TRUE(copy->fc->bias.requires_grad());
  EXPECT_FALSE(copy->is_training());
  EXPECT_NE(copy->fc->weight.data_ptr(), net.fc->weight.data_ptr());
}

TEST(ModuleFor, CloningDrawsNothingFromTheGenerator) {
  const Normalized net;
  torch::manual_seed(1);
  const auto expected = torch::rand({3});
  torch::manual_seed(1);
  net.clone();
  EXPECT_TRUE(torch::equal(torch::rand({3}), expected));
}

TEST(ModuleFor, AsksForMakeWhereThereAreConstructorArguments) {
  struct Sized final : ModuleFor<Sized> {
    explicit Sized(int64_t n) { register_parameter("w", torch::ones({n})); }
  };
  EXPECT_THAT(error_text<UserError>([] { Sized(3).clone(); }), HasSubstr("make()"));
  struct Made final : ModuleFor<Made> {
    explicit Made(int64_t n) { register_parameter("w", torch::ones({n})); }
    std::shared_ptr<Made> make() const override { return std::make_shared<Made>(3); }
  };
  EXPECT_EQ(Made(3).clone()->parameters()[0].numel(), 3);
  EXPECT_THAT(error_text<UserError>([] { Made(4).clone(); }), HasSubstr("same shape"));
}

}  // namespace
}  // namespace cohort
