// Threads take the numbers of batches in order and put what they read into slots, from which the loop takes batches in
// order as well. Two slots for each worker bound how far they are ahead. The threads begin with the first batch that is
// asked for, because a run that is resumed sets the default generator before, and end with the source.
#include "data/worker_source.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/device_copy.hpp"

namespace cohort {
namespace {

constexpr int64_t kAheadEach = 2;

at::Tensor state_of_default_generator() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());  // the step may be drawing
  return generator.get_state();
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
    Batch batch{};
    std::exception_ptr failure{};
    at::Tensor generator_before{};  // the default generator's state, with one worker
  };
  Slot& slot(int64_t batch) { return slots_[static_cast<size_t>(batch) % slots_.size()]; }
  /// Returns the first batch for which there is no room yet.
  int64_t end_of_room() const { return std::min(batches_.count(), given_ + static_cast<int64_t>(slots_.size())); }
  void start();
  void work(int64_t worker);
  Slot read(int64_t batch) const;

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
  while (std::ssize(threads_) < workers_) threads_.emplace_back([this, name = std::ssize(threads_)] { work(name); });
  std::unique_lock lock(mutex_);
  was_read_.wait(lock, [&] { return begun_ == workers_; });
  at::set_num_threads(threads_of_loop);  // what workers have set is also the number of threads that begin later
}

void WorkerSource::work(int64_t worker) {
  ::pthread_setname_np(::pthread_self(), ("data " + std::to_string(worker)).c_str());
  at::set_num_threads(1);
  const at::ThreadLocalStateGuard same(*caller_);
  std::unique_lock lock(mutex_);
  ++begun_;
  was_read_.notify_all();
  while (true) {
    may_read_.wait(lock, [&] { return stopping_ || taken_ < end_of_room(); });
    if (stopping_) return;
    const int64_t batch = taken_++;
    lock.unlock();
    Slot read_now = read(batch);
    lock.lock();
    slot(batch) = std::move(read_now);
    was_read_.notify_all();
  }
}

WorkerSource::Slot WorkerSource::read(int64_t batch) const {
  Slot result{.is_read = true};
  if (workers_ == 1) result.generator_before = state_of_default_generator();
  try {
    result.batch = pinned(batches_.read(batch), device_);
  } catch (...) {
    result.failure = std::current_exception();
  }
  return result;
}

Batch WorkerSource::next() {
  start();
  std::unique_lock lock(mutex_);
  was_read_.wait(lock, [&] { return slot(given_).is_read; });
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
  was_read_.wait(lock, [&] {
    int64_t batch = given_;
    while (batch < end_of_room() && slot(batch).is_read) ++batch;
    return batch == end_of_room();
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
