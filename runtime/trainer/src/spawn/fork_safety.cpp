#include "spawn/fork_safety.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr int kPauseHard = 2;  // omp_pause_hard
constexpr std::chrono::milliseconds kLongestEnd = 1s;
constexpr std::chrono::milliseconds kThreadPoll = 1ms;
constexpr size_t kMaxNamesShown = 5;

struct LoadedLibraries {
  std::string_view begins;  // of the file's name
  std::vector<std::string> paths;
};

int note_library(dl_phdr_info* info, size_t, void* data) {
  auto& wanted = *static_cast<LoadedLibraries*>(data);
  const std::string_view path = info->dlpi_name;
  if (path.substr(path.rfind('/') + 1).starts_with(wanted.begins)) wanted.paths.emplace_back(path);
  return 0;
}

/// Functions of this name in the program's own scope and in loaded libraries whose file name begins like this, which
/// may be private to a plugin.
template <class Function>
std::vector<Function> find_functions(std::string_view library, const char* name) {
  LoadedLibraries libraries{library, {}};
  ::dl_iterate_phdr(note_library, &libraries);
  std::vector<void*> found{::dlsym(RTLD_DEFAULT, name)};
  for (const std::string& path : libraries.paths) {
    void* const handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) continue;
    found.push_back(::dlsym(handle, name));  // also looks into what the library was linked to
    ::dlclose(handle);
  }
  std::vector<Function> functions;
  for (void* const symbol : found) {
    if (symbol) functions.push_back(reinterpret_cast<Function>(symbol));
  }
  return functions;
}

// LibTorch brings an OpenMP of its own, and the program may have another one.
void pause_openmp() {
  for (const auto pause : find_functions<int (*)(int)>("libtorch_cpu.so", "omp_pause_resource_all")) pause(kPauseHard);
}

std::vector<std::string> other_threads() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    if (entry.path().filename() == std::to_string(::gettid())) continue;
    std::string name;
    if (std::getline(std::ifstream(entry.path() / "comm"), name)) names.push_back(name);
  }
  return names;
}

/// A thread that was joined is still listed for a moment.
std::vector<std::string> threads_that_stay() {
  const auto deadline = std::chrono::steady_clock::now() + kLongestEnd;
  auto names = other_threads();
  while (!names.empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kThreadPoll);
    names = other_threads();
  }
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMaxNamesShown; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMaxNamesShown ? text + ", ..." : text;
}

bool is_mpi_up() {
  const auto says_yes = [](int (*ask)(int*)) {
    int answer = 0;
    return ask(&answer) == 0 && answer != 0;
  };
  const auto initialised = find_functions<int (*)(int*)>("libmpi", "MPI_Initialized");
  const auto finalised = find_functions<int (*)(int*)>("libmpi", "MPI_Finalized");
  for (size_t i = 0; i < initialised.size() && i < finalised.size(); ++i) {
    if (says_yes(initialised[i]) && !says_yes(finalised[i])) return true;
  }
  return false;
}

bool is_cuda_up() {
  const std::string_view driver = "libcuda.so";
  for (const auto current : find_functions<int (*)(void**)>(driver, "cuCtxGetCurrent")) {
    void* context = nullptr;
    if (current(&context) == 0 && context) return true;
  }
  const auto count = find_functions<int (*)(int*)>(driver, "cuDeviceGetCount");
  const auto state = find_functions<int (*)(int, unsigned*, int*)>(driver, "cuDevicePrimaryCtxGetState");
  int devices = 0;
  if (count.empty() || state.empty() || count[0](&devices) != 0) return false;
  for (int device = 0; device < devices; ++device) {
    unsigned flags = 0;
    int is_active = 0;
    if (state[0](device, &flags, &is_active) == 0 && is_active != 0) return true;
  }
  return false;
}

}  // namespace

std::string objection_to_fork() {
  if (is_mpi_up()) return "MPI is initialised in this process, which cannot be forked then";
  if (is_cuda_up()) return "this process uses CUDA, and cannot be forked then";
  pause_openmp();
  const auto threads = threads_that_stay();
  return threads.empty() ? ""
                         : "other threads run in this process (" + listed(threads) + "), which a fork would not have";
}

}  // namespace cohort
