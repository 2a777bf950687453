#include "link.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include <cohort/sdk/duration.hpp>

#include "calls.hpp"

namespace cohort::nccl {
namespace {

constexpr std::chrono::seconds kLongestClose{10};
// NCCL's thread launches an operation within the 200 us or so that these questions last, and the shortest sleep of a
// thread lasts some 60 us.
constexpr int kAsksBeforeSleep = 300;
constexpr std::chrono::microseconds kShortestSleep{50}, kLongestSleep{1000};

cohort_status status_of(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError:
    case ncclSystemError:
      return COHORT_UNAVAILABLE;
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return COHORT_FAILED_PRECONDITION;
    default:
      return COHORT_INTERNAL;
  }
}

ncclConfig_t config_that_does_not_block() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

Link::Link(std::shared_ptr<const Surroundings> around, std::string name, const ncclUniqueId& id, int rank, int size)
    : around_(std::move(around)), name_(std::move(name)), rank_(rank), size_(size) {
  const OnDevice on(around_->cuda, around_->device);
  const Clock::time_point deadline = Clock::now() + around_->timeout;
  ncclConfig_t config = config_that_does_not_block();
  std::unique_lock lock(mutex_);
  const ncclResult_t result = around_->nccl.CommInitRankConfig(&comm_, size, id, rank, &config);
  lock.unlock();
  await("connect", result, deadline);
}

Link::~Link() {
  close();
}

// A caller waits here without the lock, so that others can abort.
void Link::await(const std::string& what, ncclResult_t result, Clock::time_point deadline) {
  auto pause = kShortestSleep;
  for (int asks = 1;; ++asks) {
    {
      Lock lock(mutex_);
      throw_once_ended(lock);
      awaited_ = &what;
      if (result == ncclSuccess || result == ncclInProgress) {
        if (const ncclResult_t asked = around_->nccl.CommGetAsyncError(comm_, &result); asked != ncclSuccess) {
          result = asked;
        }
      }
      if (result != ncclInProgress) awaited_ = nullptr;
      if (result == ncclSuccess) return;
      if (result != ncclInProgress) fail(what, result);
      if (result == ncclInProgress && Clock::now() >= deadline) fail(COHORT_DEADLINE_EXCEEDED, late(what));
      throw_once_ended(lock);
    }
    if (asks < kAsksBeforeSleep) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestSleep);
  }
}

std::string Link::late(const std::string& what) const {
  return what + " on '" + name_ + "' did not end within " + sdk::in_words(around_->timeout) +
         ": a rank did not come, or its GPU is busy; look at the logs of the others, or raise --timeout";
}

void Link::require_usable() const {
  if (failure_) throw *failure_;
  if (!comm_) throw sdk::Error(COHORT_ABORTED, "'" + name_ + "' is closed");
}

std::shared_ptr<Link> Link::split(int color, int key, const std::string& name) {
  const OnDevice on(around_->cuda, around_->device);
  const Clock::time_point deadline = Clock::now() + around_->timeout;
  ncclConfig_t config = config_that_does_not_block();
  auto part = std::shared_ptr<Link>(new Link(around_, name));
  std::unique_lock lock(mutex_);
  require_usable();
  const ncclResult_t result =
      around_->nccl.CommSplit(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part->comm_, &config);
  lock.unlock();
  await("split", result, deadline);
  if (color < 0) return nullptr;
  part->await("split", ncclSuccess, deadline);
  around_->nccl.CommUserRank(part->comm_, &part->rank_);
  around_->nccl.CommCount(part->comm_, &part->size_);
  return part;
}

void Link::enqueue(const std::string& what, const cohort_stream& stream,
                   const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& calls) {
  const OnDevice on(around_->cuda, around_->device);
  const Clock::time_point deadline = Clock::now() + around_->timeout;
  auto* const native = static_cast<cudaStream_t>(stream.native);
  std::unique_lock lock(mutex_);
  require_usable();
  const Nccl& nccl = around_->nccl;
  nccl.GroupStart();
  const ncclResult_t called = calls(comm_, native);
  const ncclResult_t ended = nccl.GroupEnd();
  lock.unlock();
  await(what, called != ncclSuccess && called != ncclInProgress ? called : ended, deadline);
  lock.lock();
  throw_once_ended(lock);
  record(what, native);
}

void Link::exchange(const std::string& what, sdk::Span<const cohort_message> messages, const cohort_stream& on) {
  enqueue(what, on, [&](ncclComm_t comm, cudaStream_t stream) {
    Calls calls;
    for (const cohort_message& one : messages) {
      if (one.nbytes == 0) continue;
      calls.add([&] {
        return one.is_send ? around_->nccl.Send(one.data, one.nbytes, ncclUint8, one.peer, comm, stream)
                           : around_->nccl.Recv(one.data, one.nbytes, ncclUint8, one.peer, comm, stream);
      });
    }
    return calls.result();
  });
}

// A captured operation has no event, because it ends in each replay, of which the host hears nothing.
void Link::record(const std::string& what, cudaStream_t stream) {
  const Cuda& cuda = around_->cuda;
  auto capture = cudaStreamCaptureStatusNone;
  cuda.check(cuda.StreamIsCapturing(stream, &capture), "cudaStreamIsCapturing");
  if (capture != cudaStreamCaptureStatusNone) return;
  cudaEvent_t event = nullptr;
  if (events_.empty()) {
    cuda.check(cuda.EventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  } else {
    event = events_.back();
    events_.pop_back();
  }
  pending_.push_back({event, Clock::now() + around_->timeout, what});
  cuda.check(cuda.EventRecord(event, stream), "cudaEventRecord");
}

// Returns a guard for calls that end something, which must run also if the device has failed and cannot be set.
OnDevice Link::on_device_if_possible() const {
  return {around_->cuda, around_->device, OnDevice::Unless::kGoOn};
}

void Link::fail(cohort_status status, const std::string& text, std::vector<int32_t> peers) {
  if (failure_) return;
  failure_.emplace(status, text, std::move(peers));
  give_up();
}

void Link::fail(const std::string& what, ncclResult_t result) {
  fail(status_of(result), what + " on '" + name_ + "' failed in NCCL " + around_->nccl.version_text() + ": " +
                              around_->nccl.text_of(result, comm_) + "; NCCL_DEBUG=INFO makes it say more");
}

// Everything that is enqueued ends now. ncclCommAbort waits for that, and for kernels of other links on the device, so
// it has a thread of its own: links end side by side, and nobody else waits for it.
void Link::give_up() {
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  if (!comm) return drop_events();
  is_ending_ = true;
  try {
    ending_ = std::async(std::launch::async, [this, comm] {
      const OnDevice on = on_device_if_possible();
      around_->nccl.CommAbort(comm);
      const Lock lock(mutex_);
      drop_events();
      is_ending_ = false;
      ended_.notify_all();
    });
  } catch (const std::system_error&) {  // There can be no more threads.
    const OnDevice on = on_device_if_possible();
    around_->nccl.CommAbort(comm);
    drop_events();
    is_ending_ = false;
  }
}

// Throws the failure, if there is one, after its abort: until then NCCL keeps the call on a list of this thread, and
// may write the communicator that a split makes.
void Link::throw_once_ended(Lock& lock) {
  if (!failure_) return;
  wait_for_abort(lock);
  throw *failure_;
}

void Link::wait_for_abort(Lock& lock) {
  ended_.wait(lock, [this] { return !is_ending_; });
}

void Link::drop_events() {
  for (const Pending& one : pending_) around_->cuda.EventDestroy(one.event);
  for (const cudaEvent_t event : events_) around_->cuda.EventDestroy(event);
  pending_.clear();
  events_.clear();
}

void Link::abort() {
  const Lock lock(mutex_);
  fail(COHORT_ABORTED, "'" + name_ + "' was aborted");
}

void Link::check() {
  poll();
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
}

// Asks events before the state, because NCCL notes a failure in the state before the event of the operation is done. An
// error of the device comes first, because it is this rank's own and NCCL says less about it.
void Link::poll() {
  const OnDevice on = on_device_if_possible();
  const Lock lock(mutex_);
  if (!comm_ || failure_) return;
  auto first = pending_.begin();
  try {
    while (first != pending_.end() && around_->cuda.is_done(first->event)) ++first;
  } catch (const sdk::Error& error) {
    return fail(error.status(), first->what + " on '" + name_ + "' failed on its device: " + error.what() +
                                    "; an earlier kernel may be the cause, and CUDA_LAUNCH_BLOCKING=1 shows which");
  }
  ncclResult_t state = ncclSuccess;
  if (const ncclResult_t asked = around_->nccl.CommGetAsyncError(comm_, &state); asked != ncclSuccess) state = asked;
  if (state != ncclSuccess && state != ncclInProgress) {
    return fail(pending_.empty() ? "an operation" : pending_.front().what, state);
  }
  std::for_each(pending_.begin(), first, [&](const Pending& one) { events_.push_back(one.event); });
  pending_.erase(pending_.begin(), first);
  if (!pending_.empty() && Clock::now() >= pending_.front().deadline) {
    fail(COHORT_DEADLINE_EXCEEDED, late(pending_.front().what));
  }
}

// Fails what waits for these ranks. Of a part nobody knows here whether the ranks are in it.
void Link::lose(const std::vector<int>& ranks) {
  const Lock lock(mutex_);
  const bool is_running = awaited_ || !pending_.empty();
  if (!comm_ || failure_ || !is_running || size_ != static_cast<int>(around_->peers.size())) return;
  std::string names;
  for (const int rank : ranks) {
    names += (names.empty() ? "" : ", ") + around_->peers[static_cast<std::size_t>(rank)].name;
  }
  fail(COHORT_UNAVAILABLE,
       names + " is gone: its process ended before " + (pending_.empty() ? *awaited_ : pending_.front().what) +
           " on '" + name_ + "' did",
       {ranks.begin(), ranks.end()});
}

// The watch may abort at any time but while a call has the communicator, so each takes it under the lock.
void Link::close() {
  const OnDevice on = on_device_if_possible();
  Lock lock(mutex_);
  wait_for_abort(lock);
  if (!comm_) return drop_events();
  const ncclResult_t result = around_->nccl.CommFinalize(comm_);
  lock.unlock();
  try {
    await("close", result, Clock::now() + std::min<std::chrono::nanoseconds>(around_->timeout, kLongestClose));
  } catch (const sdk::Error&) {
    // It is aborted instead.
  }
  lock.lock();
  wait_for_abort(lock);
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  drop_events();
  lock.unlock();
  if (comm) around_->nccl.CommDestroy(comm);
}

}  // namespace cohort::nccl
