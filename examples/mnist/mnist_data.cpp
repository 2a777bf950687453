#include "mnist_data.hpp"

#include <ATen/ops/from_blob.h>

#include <cohort/host/error.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "idx_file.hpp"

namespace {

struct Digits {
  at::Tensor images;  // [n, 1, 28, 28], normalised
  at::Tensor labels;  // [n]
};

// The files are spread under two names, and torchvision puts them into a folder of its own.
std::filesystem::path file_of(const std::filesystem::path& folder, const std::string& part, const std::string& kind) {
  std::error_code ignored;  // opening the file reports the reason
  if (!std::filesystem::is_directory(folder, ignored)) return folder / (part + "-" + kind);
  for (const auto& place : {folder, folder / "MNIST" / "raw"}) {
    for (const char* const separator : {"-", "."}) {
      const auto plain = place / (part + separator + kind);
      const auto compressed = plain.string() + ".gz";
      if (std::filesystem::exists(plain, ignored)) return plain;
      if (std::filesystem::exists(compressed, ignored)) return compressed;
    }
  }
  throw cohort::UserError(folder.string() + " has neither " + part + "-" + kind + " nor " + part + "." + kind +
                          ", plain or as .gz, here or in MNIST/raw; give the files of MNIST these names, or another "
                          "--data-dir");
}

Digits read_digits(const std::filesystem::path& folder, const std::string& part) {
  const auto images_file = file_of(folder, part + "-images", "idx3-ubyte");
  const auto labels_file = file_of(folder, part + "-labels", "idx1-ubyte");
  IdxArray images = read_idx(images_file, 3);
  IdxArray labels = read_idx(labels_file, 1);
  if (images.shape[0] != labels.shape[0]) {
    throw cohort::UserError(images_file.string() + " has " + std::to_string(images.shape[0]) + " images, but " +
                            labels_file.string() + " has " + std::to_string(labels.shape[0]) + " labels");
  }
  if (images.shape[1] != 28 || images.shape[2] != 28)
    throw cohort::UserError(images_file.string() + " has images that are not 28 x 28");
  for (const uint8_t label : labels.values) {
    if (label > 9)
      throw cohort::UserError(labels_file.string() + " has the label " + std::to_string(label) + "; digits are 0 to 9");
  }
  const auto bytes = at::from_blob(images.values.data(), {images.shape[0], 1, 28, 28}, at::kByte);
  const auto targets = at::from_blob(labels.values.data(), {labels.shape[0]}, at::kByte);
  return {bytes.to(at::kFloat).div_(255).sub_(0.1307).div_(0.3081), targets.to(at::kLong)};
}

std::shared_ptr<cohort::Dataset> part_of(const Digits& digits, int64_t begin, int64_t end) {
  return std::make_shared<cohort::TensorDataset>(digits.images.slice(0, begin, end),
                                                 digits.labels.slice(0, begin, end));
}

// As installed, and as built: share/cohort/mnist beside the folder of the program.
std::filesystem::path folder_beside_program() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "share" / "cohort" / "mnist";
}

}  // namespace

MnistData::MnistData(const std::filesystem::path& folder, int64_t batch_size) : batch_size_(batch_size) {
  if (folder.empty()) {
    const Digits digits = read_digits(folder_beside_program(), "t10k");
    const int64_t size = digits.labels.size(0);
    train_ = part_of(digits, 0, size * 72 / 100);
    validation_ = part_of(digits, size * 72 / 100, size * 80 / 100);
    test_ = part_of(digits, size * 80 / 100, size);
    return;
  }
  const Digits training = read_digits(folder, "train");
  const Digits testing = read_digits(folder, "t10k");
  const int64_t size = training.labels.size(0);
  const int64_t held_back = size / 12;
  train_ = part_of(training, 0, size - held_back);
  validation_ = part_of(training, size - held_back, size);
  test_ = part_of(testing, 0, testing.labels.size(0));
}
