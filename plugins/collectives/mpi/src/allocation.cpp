// alloc and free. What MPI does for a window waits for all ranks without a deadline, and on a rank that fails leaves
// the others waiting: so ranks agree, by sums of a few numbers, before and after.
#include <utility>

#include "operation.hpp"
#include "shared_memory.hpp"

namespace cohort::mpi {

namespace {

std::string text_of_alloc(uint64_t nbytes) {
  return "alloc of " + std::to_string(nbytes) + " bytes";
}

}  // namespace

std::vector<int64_t> Communicator::least(const std::string& text, std::vector<int64_t> values) {
  struct Numbers {
    std::vector<int64_t> own, least;
  };
  auto numbers = std::make_unique<Numbers>(Numbers{values, values});
  Operation operation(*this, [&] { return text; });
  operation.begin([&](MPI_Request* request) {
    return ::MPI_Iallreduce(numbers->own.data(), numbers->least.data(), static_cast<int>(numbers->own.size()),
                            MPI_INT64_T, MPI_MIN, comm_, request);
  });
  try {
    operation.wait_all();
  } catch (...) {
    static_cast<void>(numbers.release());  // MPI may write to them when the other ranks come
    throw;
  }
  return std::move(numbers->least);
}

void Communicator::call_together(const char* name, const std::string& text, std::function<int()> function) {
  network_->call_together(name, text + " on '" + name_ + "'", std::move(function));
}

void* Communicator::alloc(uint64_t nbytes) {
  if (!is_root_) throw sdk::invalid_argument("mpi alloc needs the root communicator, not one made by split");
  if (nbytes == 0) throw sdk::invalid_argument("mpi alloc was asked for 0 bytes");
  if (size() == 1) return memory_->add_ordinary(nbytes);
  free_windows_with_others(nbytes);
  void* const shared = memory_->is_possible() ? alloc_shared(nbytes) : nullptr;
  return shared ? shared : memory_->add_ordinary(nbytes);
}

// Every rank comes by here, as it does not where it frees its own.
void Communicator::free_windows_with_others(uint64_t nbytes) {
  const auto asked = static_cast<int64_t>(nbytes);
  std::vector<int64_t> marks = memory_->freed();
  marks.insert(marks.end(), {asked, -asked});
  marks = least(text_of_alloc(nbytes), std::move(marks));
  const int64_t most = -marks.back();
  marks.pop_back();
  if (marks.back() != most) {
    throw sdk::failed_precondition("ranks of '" + name_ + "' ask for different sizes of memory, from " +
                                   std::to_string(marks.back()) + " to " + std::to_string(most) +
                                   " bytes; alloc is collective");
  }
  marks.pop_back();
  for (const MPI_Win handle : memory_->remove(marks)) free_window(handle);
}

void Communicator::free_window(MPI_Win handle) {
  call_together("MPI_Win_free", "alloc", [window = handle]() mutable { return ::MPI_Win_free(&window); });
}

void* Communicator::alloc_shared(uint64_t nbytes) {
  const std::string text = text_of_alloc(nbytes);
  if (least(text, {has_room_for_window(nbytes, size()) ? 1 : 0}).front() == 0) return nullptr;
  auto window = std::make_shared<Window>();
  call_together("MPI_Win_allocate_shared", text,
                [comm = comm_, nbytes, window] { return make_window(comm, nbytes, *window); });
  const bool has_memory = fill_with_zeros(window->parts[static_cast<std::size_t>(rank_)], window->nbytes);
  // Ranks that go on may use it at once, on other communicators too: so it is known here before they do.
  void* const memory = memory_->add(*window);
  if (least(text, {has_memory ? 1 : 0}).front() == 1) return memory;
  memory_->free(memory);
  std::vector<int64_t> marks(memory_->freed().size());
  marks.back() = 1;
  memory_->remove(marks);
  free_window(window->handle);
  return nullptr;
}

bool Communicator::shares_memory() const {
  return memory_->is_possible();
}

void Communicator::release(void* memory) {
  memory_->free(memory);
}

}  // namespace cohort::mpi
