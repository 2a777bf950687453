// How fast an accelerator's kernels move memory, beside copies of as many bytes by its own kernel `copy`, as one JSON
// object.
//
//   kernel_rates_on_cuda --plugin-dir=DIR [--mib=N] [--calls=50]
//
// Each kernel is called `calls` times in a row on tensors of float32 with random elements; the fastest of three rounds
// counts. A rate is the bytes that the kernel has to read and write in a second, in GB/s, and `percent` what it is of
// the copy's. Tensors have N MiB; without --mib all of the sizes 1, 25 and 512 are measured, a size beyond which no
// cache reaches among them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/plugin_host.hpp>

#include "accelerator/accelerator.hpp"
#include "device.hpp"

namespace cohort {
namespace {

constexpr int kRounds = 3;
constexpr uint64_t kTensors = 9;          // the result, and as many inputs as a kernel takes at most
constexpr uint64_t kTensorsOfCopies = 5;  // into which copies of half of the others are written
constexpr uint64_t kChunks = 8;
constexpr int32_t kType = COHORT_FLOAT32;

struct Arguments {
  std::string plugin_dir;
  std::vector<uint64_t> mib{1, 25, 512};
  int calls = 50;
};

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = std::min(argument.find('='), argument.size() - 1);
    const std::string_view name = argument.substr(0, equals);
    const std::string value(argument.substr(equals + 1));
    if (name == "--plugin-dir") {
      arguments.plugin_dir = value;
    } else if (name == "--mib" || name == "--calls") {
      const int number = std::atoi(value.c_str());
      if (number < 1) throw UserError(std::string(name) + ": give a number above 0");
      if (name == "--mib") arguments.mib = {static_cast<uint64_t>(number)};
      if (name == "--calls") arguments.calls = number;
    } else {
      throw UserError("unknown argument '" + std::string(argument) + "'; there are --plugin-dir, --mib and --calls");
    }
  }
  return arguments;
}

template <class Table>
const Table& table_of(host::Accelerator& accelerator, const conformance::Device& device, const char* id) {
  return *static_cast<const Table*>(accelerator.kernels(device.type(), id));
}

/// A kernel's call, and what it moves in bytes for each element of a tensor.
struct Measured {
  const char* name;
  double bytes_of_element;
  std::function<cohort_status()> call;
};

/// The kernels on tensors of one size.
class Rates {
 public:
  Rates(host::Accelerator& accelerator, conformance::Device& device, uint64_t mib, int calls)
      : core_(accelerator.core_kernels()),
        codec_(table_of<cohort_kernels_minmax_uint8_1>(accelerator, device, COHORT_KERNELS_MINMAX_UINT8_ID)),
        adam_(table_of<cohort_kernels_adam_1>(accelerator, device, COHORT_KERNELS_ADAM_ID)),
        ring_(table_of<cohort_kernels_ring_1>(accelerator, device, COHORT_KERNELS_RING_ID)),
        device_(device),
        stream_(device.make_stream()),
        calls_(calls),
        nbytes_(mib << 20),
        n_(nbytes_ / sizeof(float)),
        memory_(static_cast<std::byte*>(device.alloc((kTensors + kTensorsOfCopies) * nbytes_, stream_))) {
    std::minstd_rand random(1);
    std::vector<float> values(n_);
    for (float& value : values) value = static_cast<float>(random()) / 0x1p30f - 1.0f;
    for (uint64_t k = 0; k < kTensors; ++k) device_.copy(tensor(k), values.data(), nbytes_, stream_);
    for (float& value : values) value = std::abs(value);  // squares of gradients
    device_.copy(tensor(3), values.data(), nbytes_, stream_);
  }
  ~Rates() {
    device_.release(memory_, stream_);
    device_.destroy_stream(stream_);
  }
  Rates(const Rates&) = delete;
  Rates& operator=(const Rates&) = delete;

  void print() const {
    const char* separator = "";
    std::printf("\"%llu\": {", static_cast<unsigned long long>(nbytes_ >> 20));
    for (const auto& kernels : {flat(), reductions(), codec()}) {
      for (const Measured& kernel : kernels) {
        const double bytes = kernel.bytes_of_element * static_cast<double>(n_);
        const double own = rate(bytes, kernel.call), copied = copy_rate(bytes);
        std::printf("%s\"%s\": {\"gb_per_s\": %.1f, \"copy_gb_per_s\": %.1f, \"percent\": %.1f}", separator,
                    kernel.name, own, copied, 100 * own / copied);
        separator = ", ";
      }
    }
    std::printf("}");
  }

 private:
  const cohort_kernels_core_1& core_;
  const cohort_kernels_minmax_uint8_1& codec_;
  const cohort_kernels_adam_1& adam_;
  const cohort_kernels_ring_1& ring_;
  conformance::Device& device_;
  cohort_stream stream_;
  int calls_;
  uint64_t nbytes_, n_;
  std::byte* memory_;

  void* tensor(uint64_t index) const { return memory_ + index * nbytes_; }

  std::vector<Measured> flat() const {
    void* const out = tensor(0);
    void* const x = tensor(1);
    const auto sum_of = [=, this](uint64_t count) {
      std::vector<const void*> inputs;
      for (uint64_t k = 1; k <= count; ++k) inputs.push_back(tensor(k));
      return
          [=, this] { return core_.sum_of_n(core_.accelerator, out, inputs.data(), count, kType, n_, 0.1, &stream_); };
    };
    return {
        {"fill", 4, [=, this] { return core_.fill(core_.accelerator, out, kType, n_, 0.5, &stream_); }},
        {"scale", 8, [=, this] { return core_.scale(core_.accelerator, out, x, kType, n_, 0.3, &stream_); }},
        {"axpby", 12, [=, this] { return core_.axpby(core_.accelerator, out, x, kType, n_, 0.1, 0.9, &stream_); }},
        {"cast_to_16_bit", 6,
         [=, this] { return core_.cast(core_.accelerator, out, COHORT_FLOAT16, x, kType, n_, &stream_); }},
        {"sum_of_2", 12, sum_of(2)},
        {"sum_of_3", 16, sum_of(3)},
        {"sum_of_8", 36, sum_of(8)},
        {"adam", 16,
         [=, this] {
           return adam_.step(adam_.accelerator, out, x, tensor(3), kType, n_, 0.999, 1e-3, 0.9, 1e-8, &stream_);
         }},
        {"ring", 20,
         [=, this] { return ring_.change(ring_.accelerator, out, x, tensor(2), tensor(4), kType, n_, &stream_); }},
    };
  }

  /// Their results lie in a tensor that no kernel reads.
  std::vector<Measured> reductions() const {
    void* const x = tensor(1);
    void* const y = tensor(2);
    auto* const sum = static_cast<double*>(tensor(0));
    auto* const found = static_cast<uint32_t*>(tensor(0));
    return {
        {"square_sum", 4, [=, this] { return core_.square_sum(core_.accelerator, x, kType, n_, sum, &stream_); }},
        {"dot", 8, [=, this] { return core_.dot(core_.accelerator, x, y, kType, n_, sum, &stream_); }},
        {"found_inf", 4, [=, this] { return core_.found_inf(core_.accelerator, x, kType, n_, found, &stream_); }},
    };
  }

  /// A tensor is one chunk, or the chunks of 8 ranks, as a mean of theirs has them. Reads and writes are counted once;
  /// chunks that a block cannot hold are read twice by `encode`, so its rate is lower.
  std::vector<Measured> codec() const {
    void* const out = tensor(0);
    void* const x = tensor(1);
    void* const chunk = tensor(5);
    void* const chunks = tensor(6);
    const uint64_t of_chunk = n_ / kChunks;
    const auto encode = [=, this](void* to, uint64_t numel, uint64_t count, double divisor) {
      return [=, this] { return codec_.encode(codec_.accelerator, to, x, kType, numel, count, divisor, &stream_); };
    };
    return {
        {"encode", 5, encode(chunk, n_, 1, 1)},
        {"encode_of_8", 5, encode(chunks, of_chunk, kChunks, 8)},
        {"decode", 5, [=, this] { return codec_.decode(codec_.accelerator, out, kType, chunk, n_, 1, &stream_); }},
        {"decode_of_8", 5,
         [=, this] { return codec_.decode(codec_.accelerator, out, kType, chunks, of_chunk, kChunks, &stream_); }},
        {"decode_add_of_8", 1 + 4.0 / kChunks,
         [=, this] {
           return codec_.decode_add(codec_.accelerator, out, nullptr, kType, chunks, of_chunk, kChunks, &stream_);
         }},
    };
  }

  /// Returns GB/s of a copy that reads half of the bytes and writes the other half.
  double copy_rate(double bytes) const {
    const auto half = static_cast<uint64_t>(bytes / 2);
    return rate(bytes, [=, this] { return core_.copy(core_.accelerator, tensor(kTensors), memory_, half, &stream_); });
  }

  /// Returns GB/s of a call that moves that many bytes.
  double rate(double bytes, const std::function<cohort_status()>& call) const {
    double best = 0;
    for (int round = 0; round < kRounds; ++round) {
      device_.wait(stream_);
      const auto begun = std::chrono::steady_clock::now();
      for (int i = 0; i < calls_; ++i) {
        if (call() != COHORT_OK) throw UserError("a kernel failed");
      }
      device_.wait(stream_);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
      best = std::max(best, bytes * calls_ / seconds.count() / 1e9);
    }
    return best;
  }
};

void run(const Arguments& arguments) {
  host::Log log({});
  host::HostObject host(log);
  host::PluginSearch search;
  search.directories = host::default_directories(std::vector<std::filesystem::path>{arguments.plugin_dir}, "", "");
  host::PluginHost plugins(search, log);
  const cohort_component& component = plugins.open(host::Kind::kAccelerator, conformance::kDeviceAccelerator);
  host::Accelerator accelerator(component, host);
  accelerator.take_kernels();
  const auto device = conformance::make_device(0);
  const char* separator = "";
  std::printf("{\"kernels_of_mib\": {");
  for (const uint64_t mib : arguments.mib) {
    std::printf("%s", separator);
    Rates(accelerator, *device, mib, arguments.calls).print();
    separator = ", ";
  }
  std::printf("}}\n");
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  try {
    cohort::run(cohort::read_arguments(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_rates: %s\n", error.what());
    return 2;
  }
}
