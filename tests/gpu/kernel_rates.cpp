// How fast an accelerator's kernels move memory, beside a copy by its own kernel `copy`, as one JSON object.
//
//   kernel_rates_on_cuda --plugin-dir=DIR [--mib=64] [--calls=50]
//
// Each kernel is called `calls` times in a row on tensors of float32 with that many MiB; the fastest of three rounds
// counts. A rate is the bytes that the kernel has to read and write in a second.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
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

struct Arguments {
  std::string plugin_dir;
  uint64_t mib = 64;
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
      if (name == "--mib") arguments.mib = static_cast<uint64_t>(number);
      if (name == "--calls") arguments.calls = number;
    } else {
      throw UserError("unknown argument '" + std::string(argument) + "'; there are --plugin-dir, --mib and --calls");
    }
  }
  return arguments;
}

class Rates {
 public:
  Rates(host::Accelerator& accelerator, conformance::Device& device, const Arguments& arguments)
      : device_(device),
        core_(accelerator.core_kernels()),
        codec_(*static_cast<const cohort_kernels_minmax_uint8_1*>(
            accelerator.kernels(device.type(), COHORT_KERNELS_MINMAX_UINT8_ID))),
        stream_(device.make_stream()),
        calls_(arguments.calls),
        nbytes_(arguments.mib << 20),
        n_(nbytes_ / sizeof(float)) {
    for (void*& tensor : tensors_) {
      tensor = device_.alloc(nbytes_, stream_);
      const std::vector<float> values(n_, 0.5f);
      device_.copy(tensor, values.data(), nbytes_, stream_);
    }
  }

  void print() const {
    void* const out = tensors_[0];
    void* const x = tensors_[1];
    void* const y = tensors_[2];
    const void* const inputs[] = {x, y};
    cohort_accelerator* const a = core_.accelerator;
    const double copy = rate(2.0, [&] { return core_.copy(a, out, x, nbytes_, &stream_); });
    std::printf("{\"mib\": %llu, \"copy_gb_per_s\": %.1f, \"of_copy\": {",
                static_cast<unsigned long long>(nbytes_ >> 20), copy);
    const auto print_one = [&](const char* name, double tensors, const std::function<cohort_status()>& call) {
      std::printf("%s\"%s\": %.3f", std::string_view(name) == "fill" ? "" : ", ", name, rate(tensors, call) / copy);
    };
    print_one("fill", 1.0, [&] { return core_.fill(a, out, COHORT_FLOAT32, n_, 0.5, &stream_); });
    print_one("scale", 2.0, [&] { return core_.scale(a, out, x, COHORT_FLOAT32, n_, 0.3, &stream_); });
    print_one("axpby", 3.0, [&] { return core_.axpby(a, out, x, COHORT_FLOAT32, n_, 0.1, 0.9, &stream_); });
    print_one("sum_of_2", 3.0, [&] { return core_.sum_of_n(a, out, inputs, 2, COHORT_FLOAT32, n_, 0.5, &stream_); });
    print_one("cast_to_16_bit", 1.5,
              [&] { return core_.cast(a, out, COHORT_FLOAT16, x, COHORT_FLOAT32, n_, &stream_); });
    // Counts the floats once and the codes once. Encoding reads the floats a second time, so its rate is lower.
    print_one("encode", 1.25,
              [&] { return codec_.encode(codec_.accelerator, y, x, COHORT_FLOAT32, n_, 1, 1, &stream_); });
    print_one("decode", 1.25,
              [&] { return codec_.decode(codec_.accelerator, out, COHORT_FLOAT32, y, n_, 1, &stream_); });
    std::printf("}}\n");
  }

 private:
  conformance::Device& device_;
  const cohort_kernels_core_1& core_;
  const cohort_kernels_minmax_uint8_1& codec_;
  cohort_stream stream_;
  int calls_;
  uint64_t nbytes_, n_;
  void* tensors_[3];

  /// Returns GB/s of a call that moves that many tensors.
  double rate(double tensors, const std::function<cohort_status()>& call) const {
    double best = 0;
    for (int round = 0; round < kRounds; ++round) {
      device_.wait(stream_);
      const auto begun = std::chrono::steady_clock::now();
      for (int i = 0; i < calls_; ++i) {
        if (call() != COHORT_OK) throw UserError("a kernel failed");
      }
      device_.wait(stream_);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
      best = std::max(best, tensors * static_cast<double>(nbytes_) * calls_ / seconds.count() / 1e9);
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
  Rates(accelerator, *device, arguments).print();
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
