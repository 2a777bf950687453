#include "library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include <cohort/sdk/error.hpp>

namespace cohort::mpi {

namespace {

constexpr std::chrono::nanoseconds kDisorderlyEnd = std::chrono::seconds(2);
constexpr std::chrono::milliseconds kPause{1};
constexpr int kMostTags = 1 << 22;

int add_name(dl_phdr_info* info, std::size_t, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(info->dlpi_name);
  return 0;
}

/// The file that defines MPI as `object` and what it links see it; "" where they do not.
std::string library_of(const std::string& object) {
  void* const handle = ::dlopen(object.empty() ? nullptr : object.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return {};
  Dl_info info{};
  const void* const symbol = ::dlsym(handle, "PMPI_Init_thread");
  const bool is_known = symbol && ::dladdr(symbol, &info) != 0 && info.dli_fname;
  std::string name = is_known ? info.dli_fname : "";
  ::dlclose(handle);
  return name;
}

/// Returns the files that define MPI itself; tools that only wrap its functions are not among them. More than one of
/// them do not work together: a call may end in the one with handles of the other.
std::vector<std::string> loaded_libraries() {
  std::vector<std::string> objects;
  ::dl_iterate_phdr(add_name, &objects);  // names first: dlopen inside of it would wait for its own lock
  std::vector<std::string> libraries;
  for (const std::string& object : objects) {
    std::string library = library_of(object);
    if (library.empty() || std::find(libraries.begin(), libraries.end(), library) != libraries.end()) continue;
    libraries.push_back(std::move(library));
  }
  return libraries;
}

void require_one_library() {
  const std::vector<std::string> libraries = loaded_libraries();
  if (libraries.size() < 2) return;
  throw sdk::failed_precondition("two MPI libraries are loaded in this process, " + libraries[0] + " and " +
                                 libraries[1] +
                                 ", whose functions mix; link the program with the one that the mpi "
                                 "plugin uses, or build the plugin with the program's");
}

void require_level(int provided, bool is_ours) {
  if (provided >= MPI_THREAD_SERIALIZED) return;
  if (is_ours) {
    throw sdk::failed_precondition(
        "this MPI library allows calls of one thread only, and gradients are sent by another than the one that trains; "
        "use a build of it with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
  }
  throw sdk::failed_precondition(
      "the program has initialised MPI for calls of one thread only, and gradients are sent by another than the one "
      "that trains; call MPI_Init_thread with MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED instead of MPI_Init");
}

}  // namespace

std::string text_of_error(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  ::MPI_Error_string(code, text.data(), &length);
  return text.data();
}

Library& Library::of_process() {
  static Library library;
  return library;
}

void Library::start(bool one_at_a_time, std::chrono::nanoseconds timeout) {
  const std::lock_guard lock(starting_);
  timeout_ = std::max(timeout_, timeout);
  if (is_ready_) return;
  require_one_library();
  int is_finalised = 0;
  ::MPI_Finalized(&is_finalised);
  if (is_finalised) {
    throw sdk::failed_precondition(
        "MPI was finalised in this process and cannot be used again; call MPI_Finalize last");
  }
  if (!blocking_) blocking_.emplace();
  const int code = blocking_->run(
      "MPI_Init_thread", [=, this] { return initialise(one_at_a_time); }, Clock::now() + timeout, [] {});
  if (code != MPI_SUCCESS) {
    throw sdk::Error(COHORT_UNAVAILABLE, "MPI cannot be initialised (" + text_of_error(code) + ")");
  }
  look_around();
  is_ready_ = true;
}

// MPI keeps references to nothing that is given here.
int Library::initialise(bool one_at_a_time) {
  int is_initialised = 0;
  ::MPI_Initialized(&is_initialised);
  if (is_initialised) return MPI_SUCCESS;
  int provided = 0;
  is_ours_ = true;
  return ::MPI_Init_thread(nullptr, nullptr, one_at_a_time ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &provided);
}

void Library::look_around() {
  int provided = 0;
  ::MPI_Query_thread(&provided);
  require_level(provided, is_ours_);
  is_one_at_a_time_ = provided < MPI_THREAD_MULTIPLE;
  if (is_ours_) ::MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  ::MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  ::MPI_Comm_size(MPI_COMM_WORLD, &size_);
  void* limit = nullptr;
  int has_limit = 0;
  ::MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &has_limit);
  tag_limit_ = has_limit ? std::min(*static_cast<int*>(limit), kMostTags) : 32767;
}

int Library::call_blocking(const char* name, std::function<int()> function, Clock::time_point deadline,
                           const std::function<void()>& look) {
  try {
    return blocking_->run(
        name, [this, function = std::move(function)] { return call(function); }, deadline, look);
  } catch (...) {
    expect_no_end();  // its thread, which would finalise, is in there for good
    throw;
  }
}

void Library::retire(MPI_Comm comm) {
  const std::lock_guard lock(retiring_);
  Retired& last = retired_.emplace_back(Retired{comm, MPI_REQUEST_NULL});
  if (call([&] { return ::MPI_Ibarrier(comm, &last.barrier); }) != MPI_SUCCESS) retired_.pop_back();
  retired_.remove_if([this](Retired& one) {
    int is_over = 0;
    const int code = call([&] { return ::MPI_Test(&one.barrier, &is_over, MPI_STATUS_IGNORE); });
    if (code == MPI_SUCCESS && is_over) call([&] { return ::MPI_Comm_free(&one.comm); });
    return code != MPI_SUCCESS || is_over;
  });
}

Library::~Library() {
  if (!is_ready_ || !is_ours_ || !has_end_) return;
  int is_finalised = 0;
  ::MPI_Finalized(&is_finalised);
  if (is_finalised || !all_ranks_leave()) return;
  try {
    blocking_->run(
        "MPI_Finalize", [] { return ::MPI_Finalize(); }, Clock::now() + kDisorderlyEnd, [] {});
  } catch (const std::exception&) {
    // The process ends all the same.
  }
}

// MPI_Finalize waits for all ranks without end; a barrier does not.
bool Library::all_ranks_leave() {
  const auto deadline = Clock::now() + (is_orderly_ ? timeout_ : kDisorderlyEnd);
  MPI_Request request = MPI_REQUEST_NULL;
  int code = call([&] { return ::MPI_Ibarrier(MPI_COMM_WORLD, &request); });
  int is_done = 0;
  while (code == MPI_SUCCESS && !is_done && Clock::now() < deadline) {
    code = call([&] { return ::MPI_Test(&request, &is_done, MPI_STATUS_IGNORE); });
    if (!is_done) std::this_thread::sleep_for(kPause);
  }
  return code == MPI_SUCCESS && is_done;
}

}  // namespace cohort::mpi
