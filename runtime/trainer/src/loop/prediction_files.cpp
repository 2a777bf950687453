// Files of predictions. LibTorch writes archives for its own reader; these are made of its pickler and its archive
// writer so that torch.load of Python takes them with weights_only=True.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/tensor.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/prediction_writer.hpp>

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRankPrefix = "rank-";

bool is_of_a_rank(const std::string& name) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return name.starts_with(kRankPrefix) && name.size() > kRankPrefix.size() &&
         std::all_of(name.begin() + kRankPrefix.size(), name.end(), is_digit);
}

/// Returns whether it is new.
bool make_folder(const fs::path& folder) {
  std::error_code error;
  const bool is_new = fs::create_directories(folder, error);
  if (!error) return is_new;
  throw UserError("cannot make the folder " + host::in_quotes(folder.native()) + " for predictions (" +
                  error.message() + "); name another one");
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& rank) {
  throw UserError("the folder " + host::in_quotes(folder.native()) + " holds predictions of an earlier run (" + rank +
                  "); delete them, or name another folder");
}

/// Returns what torch.save of Python would write. torch::jit::pickle_save tags dictionaries with their types, which
/// torch.load does not take if it loads weights only.
std::string pickled(const c10::IValue& value) {
  std::string pickle, archive;
  torch::jit::Pickler pickler([&](const char* data, size_t size) { pickle.append(data, size); },
                              /*tensor_table=*/nullptr, /*type_renamer=*/nullptr, /*memoized_class_types=*/nullptr,
                              /*get_tensor_id=*/nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, size_t size) {
    archive.append(static_cast<const char*>(data), size);
    return size;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  for (size_t i = 0; i < pickler.tensorData().size(); ++i) {
    const auto tensor = torch::jit::getWriteableTensorData(pickler.tensorData()[i]);
    writer.writeRecord("data/" + std::to_string(i), tensor.data(), tensor.sizeInBytes());
  }
  writer.writeEndOfFile();
  return archive;
}

std::string file_name(int64_t batch) {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "batch-%06lld.pt", static_cast<long long>(batch));
  return name.data();
}

}  // namespace

void PredictionFiles::prepare() {
  make_folder(folder_);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (is_of_a_rank(name)) refuse(folder_, name);
  }
  if (error) {
    throw UserError("cannot read the folder " + host::in_quotes(folder_.native()) + " for predictions (" +
                    error.message() + "); name another one");
  }
}

void PredictionFiles::write(const PredictedBatch& batch) {
  const std::string rank = std::string(kRankPrefix) + std::to_string(batch.rank);
  const fs::path folder = folder_ / rank;
  const bool is_new = make_folder(folder);
  if (batch.index == 0 && !is_new) refuse(folder_, rank);  // on a node that rank 0 does not see
  c10::impl::GenericDict content(c10::StringType::get(), c10::AnyType::get());
  content.insert("samples", at::tensor(at::IntArrayRef(batch.samples.data(), batch.samples.size()), at::kLong));
  content.insert("outputs", batch.outputs.to_ivalue());
  host::write_file(folder / file_name(batch.index), pickled(content));
}

}  // namespace cohort
