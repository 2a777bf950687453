#include "copies/replica_threads.hpp"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <string>

#include <cohort/host/error.hpp>

#include <cohort/torch_error.hpp>
#include "failure/hook_place.hpp"

namespace cohort {

void throw_of_replica(const std::exception_ptr& failure, size_t replica) {
  const std::string who = "replica " + std::to_string(replica) + ": ";
  try {
    std::rethrow_exception(failure);
  } catch (const std::nested_exception&) {  // it has come from a hook, whose place names the replica
    throw;
  } catch (const PlacedError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), who + error.what());
  } catch (const c10::Error& error) {
    std::throw_with_nested(error_of(error, who));
  } catch (const std::exception& error) {
    throw TrainingFailed(who + error.what());
  }
}

ReplicaThreads::ReplicaThreads(size_t replicas, int threads_each) : failures_(replicas) {
  for (size_t replica = 0; replica < replicas; ++replica) {
    threads_.emplace_back([this, replica, threads_each] { loop(replica, threads_each); });
  }
}

ReplicaThreads::~ReplicaThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  round_begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaThreads::run(size_t count, const std::function<void(size_t)>& work) {
  const at::ThreadLocalState caller;
  std::unique_lock lock(mutex_);
  work_ = [&](size_t replica) {
    const at::ThreadLocalStateGuard same(caller);
    work(replica);
  };
  count_ = running_ = count;
  ++round_;
  round_begun_.notify_all();
  round_done_.wait(lock, [&] { return running_ == 0; });
  work_ = nullptr;
  for (size_t replica = 0; replica < count; ++replica) {
    if (auto failure = std::exchange(failures_[replica], nullptr)) {
      failures_.assign(failures_.size(), nullptr);
      throw_of_replica(failure, replica);
    }
  }
}

void ReplicaThreads::loop(size_t replica, int threads_each) {
  ::pthread_setname_np(::pthread_self(), ("replica " + std::to_string(replica)).c_str());
  at::get_num_threads();  // a thread's first call takes over the process's number, whatever was set before
  at::set_num_threads(threads_each);
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    round_begun_.wait(lock, [&] { return stopping_ || round_ != seen; });
    if (stopping_) return;
    seen = round_;
    if (replica >= count_) continue;
    lock.unlock();
    std::exception_ptr failure;
    try {
      work_(replica);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failures_[replica] = failure;
    if (--running_ == 0) round_done_.notify_all();
  }
}

}  // namespace cohort
