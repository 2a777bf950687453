// Runs a fuzz target without libFuzzer, with arguments that libFuzzer takes as well:
//   TARGET [-runs=N] [-max_total_time=SECONDS] [-seed=N] [-dict=FILE] [-artifact_prefix=PREFIX] PATH...
// Every file, also of a folder, is run as it is; then N mutations of the small ones (0 without -runs), fewer where the
// time ends first. Without -seed the seed is that of COHORT_TEST_SEED, or a new one. An input fails that crashes,
// throws, or needs more than a second: it is written to PREFIXfuzz-TARGET.input, which can be given as a PATH.
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mutator.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using cohort::fuzz::Bytes;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLargestToMutate = 8192;

struct Arguments {
  std::size_t runs = 0;
  std::chrono::seconds time{1'000'000};
  uint64_t seed = 0;
  std::string dictionary, artifact_prefix;
  std::vector<std::filesystem::path> paths;
};

// Read by the signal handler, which takes no argument; nothing else here is global.
struct Failing {
  const Bytes* input = nullptr;
  std::string file, advice;
} failing;

void save_input() noexcept {
  if (!failing.input) return;
  const int file = ::open(failing.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const bool saved = file >= 0 && ::write(file, failing.input->data(), failing.input->size()) >= 0;
  if (file >= 0) ::close(file);
  std::string_view text = "the failing input could not be written to a file\n";
  if (saved) text = failing.advice;
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) ::_exit(2);
  failing.input = nullptr;
}

extern "C" void on_signal(int signal) {
  const std::string_view text = signal == SIGPROF ? "an input takes too long\n" : "an input crashes the target\n";
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) ::_exit(2);
  save_input();
  if (signal == SIGPROF) ::_exit(1);
  ::raise(signal);  // as it would have been
}

bool is_sanitized() {
  return __sanitizer_set_death_callback != nullptr;
}

void catch_failures() {
  static std::array<char, 1 << 16> stack;  // because a recursion without end leaves none
  const stack_t other{stack.data(), 0, stack.size()};
  ::sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_ONSTACK | SA_NODEFER;
  ::sigaction(SIGPROF, &action, nullptr);
  if (is_sanitized()) return __sanitizer_set_death_callback(save_input);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::sigaction(signal, &action, nullptr);
}

// In processor time, so that a busy machine makes no difference; a sanitizer does.
void limit_time() {
  const itimerval limit{{0, 0}, {is_sanitized() ? 5 : 1, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

void run_one(const Bytes& bytes) {
  failing.input = &bytes;
  limit_time();
  try {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "an input makes the target throw: %s\n", error.what());
    save_input();
    std::exit(1);
  }
  failing.input = nullptr;
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + " cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Sorted, so that a run does not depend on the order of a folder.
std::vector<Bytes> read_inputs(const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) files.push_back(path);
    if (!std::filesystem::is_directory(path)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Bytes> inputs;
  for (const auto& file : files) inputs.push_back(read_file(file));
  return inputs;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  const char* const given = std::getenv("COHORT_TEST_SEED");
  arguments.seed = given ? std::stoull(given) : std::random_device()();
  for (const std::string_view word : std::vector<std::string_view>(argv + 1, argv + argc)) {
    const std::string value(word.substr(std::min(word.find('=') + 1, word.size())));
    if (word.starts_with("-runs=")) {
      arguments.runs = std::stoul(value);
    } else if (word.starts_with("-max_total_time=")) {
      arguments.time = std::chrono::seconds(std::stoi(value));
    } else if (word.starts_with("-seed=")) {
      arguments.seed = std::stoull(value);
    } else if (word.starts_with("-dict=")) {
      arguments.dictionary = value;
    } else if (word.starts_with("-artifact_prefix=")) {
      arguments.artifact_prefix = value;
    } else if (word.starts_with('-')) {
      throw std::invalid_argument("unknown argument " + std::string(word));
    } else {
      arguments.paths.emplace_back(word);
    }
  }
  return arguments;
}

int run(const Arguments& arguments, const std::string& name) {
  const std::vector<Bytes> inputs = read_inputs(arguments.paths);
  if (inputs.empty()) throw std::invalid_argument("no input is given");
  failing.file = arguments.artifact_prefix + "fuzz-" + name + ".input";
  failing.advice = name + ": seed " + std::to_string(arguments.seed) + "; the input is in " + failing.file +
                   "; run it again with: " + name + " " + failing.file + "\n";
  catch_failures();
  const auto begin = Clock::now();
  std::vector<Bytes> small;
  for (const Bytes& bytes : inputs) {
    run_one(bytes);
    if (bytes.size() <= kLargestToMutate) small.push_back(bytes);
  }
  std::size_t done = 0;
  if (!small.empty()) {
    cohort::fuzz::Mutator mutator(std::move(small), cohort::fuzz::read_dictionary(arguments.dictionary),
                                  arguments.seed);
    for (; done < arguments.runs && Clock::now() - begin < arguments.time; ++done) run_one(mutator.next());
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  std::printf("%s: seed %llu, %zu files, %zu mutations, %.1f s\n", name.c_str(),
              static_cast<unsigned long long>(arguments.seed), inputs.size(), done, took.count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(parse(argc, argv), std::filesystem::path(argv[0]).filename().string());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s; see the first lines of mutation_driver.cpp\n", argv[0], error.what());
  return 2;
}
