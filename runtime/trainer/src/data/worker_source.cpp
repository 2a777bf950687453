// Threads take the numbers of batches in order and put what they read into slots, from which the loop takes batches in
// order as well. Two slots for each worker bound how far they are ahead. The threads begin with the first batch that is
// asked for, because a run that is resumed sets the default generator before, and end with the source.
#include "data/worker_source.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <cxxabi.h>
#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <cohort/host/activity.hpp>
#include <cohort/host/error.hpp>

#include "data/device_copy.hpp"

namespace cohort {
namespace {

constexpr int64_t kAheadEach = 2;
constexpr int64_t kNobody = -1;

std::string name_of(int64_t worker) {
  return "worker " + std::to_string(worker);
}

at::Tensor state_of_default_generator() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());  // the step may be drawing
  return generator.get_state();
}

/// A batch that the loop waits for.
struct AwaitedBatch {
  const std::string& name;  // of the data
  int64_t batch, worker;
  bool operator==(const AwaitedBatch& other) const { return batch == other.batch && worker == other.worker; }
};

void put_awaited_in_words(const void* awaited, host::TextInRoom& text) {
  const auto& own = *static_cast<const AwaitedBatch*>(awaited);
  text << (own.worker == kNobody ? "a worker" : "worker ");
  if (own.worker != kNobody) text << own.worker;
  text << " of the " << own.name << ", still reading batch " << own.batch;
}

class WorkerSource final : public BatchSource {
 public:
  WorkerSource(DatasetBatches batches, int64_t first, int64_t workers, c10::Device device)
      : batches_(std::move(batches)),
        device_(device),
        workers_(workers),
        slots_(static_cast<size_t>(workers * kAheadEach)),
        given_(std::min(first, batches_.count())),
        taken_(given_) {}
  ~WorkerSource() override;
  WorkerSource(const WorkerSource&) = delete;
  WorkerSource& operator=(const WorkerSource&) = delete;

  int64_t available(int64_t wanted) override { return std::min(wanted, batches_.count() - given_); }
  Batch next() override;
  void settle() override;
  at::Tensor generator_before_ahead() const override;

 private:
  struct Slot {
    bool is_read = false;
    int64_t worker = kNobody;  // that reads it
    Batch batch{};
    std::exception_ptr failure{};
    at::Tensor generator_before{};  // the default generator's state, with one worker
  };
  Slot& slot(int64_t batch) { return slots_[static_cast<size_t>(batch) % slots_.size()]; }
  /// Returns the first batch for which there is no room yet.
  int64_t end_of_room() const { return std::min(batches_.count(), given_ + static_cast<int64_t>(slots_.size())); }
  void start();
  void start_threads();
  void work(int64_t worker);
  Slot read(int64_t batch, int64_t worker) const;
  void hand_over(int64_t batch, Slot read);
  template <class Unread>
  void await(std::unique_lock<std::mutex>& lock, const Unread& unread);

  const DatasetBatches batches_;
  const c10::Device device_;
  const int64_t workers_;
  std::optional<at::ThreadLocalState> caller_;  // gradient mode and the like, of the loop
  mutable std::mutex mutex_;
  std::condition_variable may_read_, was_read_;
  std::vector<Slot> slots_;
  int64_t given_;      // batches below this number were given by `next`
  int64_t taken_;      // batches below this number were taken by a worker
  int64_t begun_ = 0;  // workers that run
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

WorkerSource::~WorkerSource() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  may_read_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerSource::start() {
  if (!threads_.empty() || available(1) == 0) return;
  caller_.emplace();
  const int threads_of_loop = at::get_num_threads();
  start_threads();
  std::unique_lock lock(mutex_);
  was_read_.wait(lock, [&] { return begun_ == workers_; });
  at::set_num_threads(threads_of_loop);  // what workers have set is also the number of threads that begin later
}

void WorkerSource::start_threads() {
  try {
    while (std::ssize(threads_) < workers_) threads_.emplace_back([this, name = std::ssize(threads_)] { work(name); });
  } catch (const std::system_error& error) {
    throw UserError("only " + std::to_string(threads_.size()) + " of the " + std::to_string(workers_) +
                    " workers of the " + batches_.name() + " can be started (" + error.code().message() +
                    "); give the loader fewer workers, or raise the limit of processes (ulimit -u)");
  }
}

void WorkerSource::work(int64_t worker) {
  ::pthread_setname_np(::pthread_self(), ("data " + std::to_string(worker)).c_str());
  at::get_num_threads();  // a thread's first call takes over the process's number, whatever was set before
  at::set_num_threads(1);
  const at::ThreadLocalStateGuard same(*caller_);
  std::unique_lock lock(mutex_);
  ++begun_;
  was_read_.notify_all();
  while (true) {
    may_read_.wait(lock, [&] { return stopping_ || taken_ < end_of_room(); });
    if (stopping_) return;
    const int64_t batch = taken_++;
    slot(batch).worker = worker;
    was_read_.notify_all();  // a loop that waits for the batch names who reads it
    lock.unlock();
    try {
      hand_over(batch, read(batch, worker));
    } catch (const abi::__forced_unwind&) {  // cannot be kept from ending the thread
      hand_over(batch,
                {.is_read = true,
                 .failure = std::make_exception_ptr(UserError(
                     name_of(worker) + " of the " + batches_.name() + " was ended in batch " + std::to_string(batch) +
                     ", as by pthread_exit; a dataset has to return a batch or throw an exception"))});
      throw;
    }
    lock.lock();
  }
}

void WorkerSource::hand_over(int64_t batch, Slot read) {
  const std::lock_guard lock(mutex_);
  slot(batch) = std::move(read);
  was_read_.notify_all();
}

WorkerSource::Slot WorkerSource::read(int64_t batch, int64_t worker) const {
  Slot result{.is_read = true};
  if (workers_ == 1) result.generator_before = state_of_default_generator();
  try {
    result.batch = pinned(batches_.read(batch, name_of(worker)), device_);
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    result.failure = std::current_exception();
  }
  return result;
}

/// Waits until `unread` returns no batch.
template <class Unread>
void WorkerSource::await(std::unique_lock<std::mutex>& lock, const Unread& unread) {
  const auto awaited = [&]() -> std::optional<AwaitedBatch> {
    if (const auto batch = unread()) return AwaitedBatch{batches_.name(), *batch, slot(*batch).worker};
    return std::nullopt;
  };
  while (const auto now = awaited()) {
    const host::Activity activity(&*now, put_awaited_in_words);
    was_read_.wait(lock, [&] { return awaited() != now; });
  }
}

Batch WorkerSource::next() {
  start();
  std::unique_lock lock(mutex_);
  await(lock, [&] { return slot(given_).is_read ? std::nullopt : std::optional(given_); });
  Slot given = std::exchange(slot(given_), {});
  ++given_;
  lock.unlock();
  may_read_.notify_one();
  if (given.failure) std::rethrow_exception(given.failure);
  return std::move(given.batch);
}

void WorkerSource::settle() {
  start();
  std::unique_lock lock(mutex_);
  await(lock, [&] {
    int64_t batch = given_;
    while (batch < end_of_room() && slot(batch).is_read) ++batch;
    return batch == end_of_room() ? std::nullopt : std::optional(batch);
  });
}

at::Tensor WorkerSource::generator_before_ahead() const {
  const std::lock_guard lock(mutex_);
  return slots_[static_cast<size_t>(given_) % slots_.size()].generator_before;
}

}  // namespace

std::unique_ptr<BatchSource> read_by_workers(DatasetBatches batches, int64_t first, int64_t workers,
                                             c10::Device device) {
  return std::make_unique<WorkerSource>(std::move(batches), first, workers, device);
}

}  // namespace cohort
