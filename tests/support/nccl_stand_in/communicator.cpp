#include "communicator.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "settings.hpp"

namespace nccl_stand_in {
namespace {

struct Refused {
  ncclResult_t result;
  std::string text;
};

void pause_by_chance() {
  thread_local std::minstd_rand random(std::random_device{}());
  const int longest = number_in("NCCL_STANDIN_DELAY_US", 200);
  if (longest > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(longest)));
  }
}

// Appends with one write, because threads of the process call at the same time.
void note_call(const std::string& address, size_t num_operations) {
  const std::string folder = text_of("NCCL_STANDIN_CALLS");
  if (folder.empty()) return;
  const std::string file = folder + "/" + std::to_string(::getpid());
  const std::string line = address + " " + std::to_string(num_operations) + "\n";
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0 || ::write(fd, line.data(), line.size()) < 0) std::abort();
  ::close(fd);
}

}  // namespace

void Communicator::start() {
  fakedrv_create_event(&last_);
  fakedrv_create_event(&last_captured_);
  std::thread([self = shared_from_this()] { self->run_streams(); }).detach();
}

void Communicator::work_on(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    ++num_jobs_;
    polls_left_ = number_in("NCCL_STANDIN_POLLS", 2);
  }
  std::thread([self = shared_from_this(), job = std::move(job)] {
    try {
      job();
    } catch (const Refused& refused) {
      self->fail(refused.result, refused.text);
    } catch (const std::exception& error) {
      self->fail(ncclRemoteError, error.what());
    }
    const std::lock_guard lock(self->mutex_);
    --self->num_jobs_;
    self->changed_.notify_all();
  }).detach();
}

void Communicator::connect(const std::string& address, int device) {
  address_ = address;
  work_on([this, address, device] {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    {
      const std::lock_guard lock(mutex_);
      if (has_left_) return void(::close(fd));
      fd_ = fd;
    }
    const sockaddr_un to = address_of(address);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
      throw Refused{ncclSystemError, "nobody listens at the unique id"};
    }
    send_value(fd, Hello{rank_, size_, device});
    const auto result = receive_value<ncclResult_t>(fd);
    const std::string text = receive_text(fd);
    if (result != ncclSuccess) throw Refused{result, text};
  });
}

void Communicator::split(int color, int key, bool is_blocking,
                         const std::function<void(std::shared_ptr<Communicator>)>& made) {
  work_on([=, this] {
    const auto outputs = ask({{kSplit, 0, key, color, 0}}, {{}});
    Part part{};
    std::memcpy(&part, outputs[0].data(), sizeof part);
    if (part.size == 0) return made(nullptr);
    auto child = std::make_shared<Communicator>(part.rank, part.size, is_blocking);
    child->start();
    child->connect(part.address, -1 - part.rank);  // the devices were compared when the whole connected
    made(child);
  });
}

std::vector<Bytes> Communicator::ask(const std::vector<Operation>& operations, const std::vector<Bytes>& inputs) {
  const std::lock_guard turn(wire_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (has_left_) throw Closed("the communicator was aborted");
  }
  send_value(fd_, uint64_t{operations.size()});
  for (size_t i = 0; i < operations.size(); ++i) {
    send_value(fd_, operations[i]);
    send_bytes(fd_, inputs[i].data(), inputs[i].size());
  }
  const auto result = receive_value<ncclResult_t>(fd_);
  const std::string text = receive_text(fd_);
  if (result != ncclSuccess) throw Refused{result, text};
  std::vector<Bytes> outputs;
  for (const Operation& op : operations) {
    outputs.emplace_back(output_bytes(op, rank_, size_));
    receive_bytes(fd_, outputs.back().data(), outputs.back().size());
  }
  return outputs;
}

ncclResult_t Communicator::launch(fakedrv_stream* stream, std::vector<Call> calls) {
  Group group{stream, std::move(calls)};
  note_call(address_, group.calls.size());
  {
    const std::lock_guard lock(mutex_);
    if (result_ != ncclSuccess) return result_;
    if (num_jobs_ > 0 || !waiting_.empty()) {
      text_ = "an operation was called while the communicator was in progress";
      return result_ = ncclInvalidUsage;
    }
    if (!is_blocking_) {
      waiting_.push_back(std::move(group));
      polls_left_ = number_in("NCCL_STANDIN_POLLS", 2);
      return ncclInProgress;
    }
  }
  launch_now(std::move(group));
  return state();
}

void Communicator::launch_now(Group group) {
  std::vector<fakedrv_access> accesses;
  for (const auto& [op, input, output] : group.calls) {
    accesses.push_back({input, input_bytes(op, rank_, size_), 0, 0});
    accesses.push_back({output, output_bytes(op, rank_, size_), 1, 0});
  }
  struct Work {
    std::shared_ptr<Communicator> owner;
    std::vector<Call> calls;
    int number;
    bool runs_once;
  };
  const auto run = [](void* arg) {
    const auto& [owner, calls, number, runs_once] = *static_cast<Work*>(arg);
    owner->run(calls, number);
    if (runs_once) owner->note_end();
    return 0;  // what went wrong is known to the communicator alone
  };
  const auto drop = [](void* arg) { delete static_cast<Work*>(arg); };
  const uint64_t capture = fakedrv_capture(group.stream);
  auto* const work = new Work{shared_from_this(), group.calls, 0, capture == 0};
  std::unique_lock lock(mutex_);
  work->number = num_groups_++;
  if (capture == 0) ++num_running_;
  if (capture != 0 && std::exchange(capture_, capture) != capture) {
    fakedrv_destroy_event(last_captured_);
    fakedrv_create_event(&last_captured_);
  }
  lock.unlock();
  fakedrv_event* const last = capture == 0 ? last_ : last_captured_;
  // Operations of a communicator run in the order of their calls, whatever their streams.
  if (fakedrv_stream_waits(group.stream, last) ||
      fakedrv_launch(group.stream, "nccl", accesses.data(), accesses.size(), run, work, drop)) {
    fail(ncclUnhandledCudaError, fakedrv_error());
    if (capture == 0) note_end();
    return;
  }
  fakedrv_record(last, group.stream);
  if (capture != 0) return void(fakedrv_replay_at_once(group.stream));  // other ranks wait for it
  fakedrv_event* event = nullptr;
  fakedrv_create_event(&event);
  fakedrv_record(event, group.stream);
  lock.lock();
  launched_.push_back(event);
  changed_.notify_all();
}

void Communicator::note_end() {
  const std::lock_guard lock(mutex_);
  --num_running_;
  changed_.notify_all();
}

void Communicator::run(const std::vector<Call>& calls, int number) {
  try {
    std::vector<Operation> operations;
    std::vector<Bytes> inputs;
    pause_by_chance();
    for (const auto& [op, input, output] : calls) {
      operations.push_back(op);
      inputs.emplace_back(input_bytes(op, rank_, size_));
      if (!inputs.back().empty()) std::memcpy(inputs.back().data(), fakedrv_contents(input), inputs.back().size());
    }
    for (const auto& [op, input, output] : calls) {
      const uint64_t nbytes = output_bytes(op, rank_, size_);
      if (nbytes > 0) std::memset(fakedrv_contents(output), 0xff, nbytes);
    }
    if (names_group("NCCL_STANDIN_FAIL", rank_, number)) throw Refused{ncclInternalError, "it was told to fail"};
    if (names_group("NCCL_STANDIN_HANG", rank_, number)) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return has_left_; });
    }
    const std::vector<Bytes> outputs = ask(operations, inputs);
    for (size_t i = 0; i < calls.size(); ++i) {
      if (outputs[i].empty()) continue;
      std::memcpy(fakedrv_contents(calls[i].output), outputs[i].data(), outputs[i].size());
    }
  } catch (const Refused& refused) {
    fail(refused.result, refused.text);
  } catch (const Closed&) {
    fail(ncclRemoteError, "the connection to the process that made the unique id is closed");
  }
}

void Communicator::run_streams() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return has_left_ || !launched_.empty(); });
    if (launched_.empty()) break;
    fakedrv_event* const event = launched_.front();
    launched_.pop_front();
    lock.unlock();
    fakedrv_run_to_event(event);
    fakedrv_destroy_event(event);
    lock.lock();
  }
  lock.unlock();
  fakedrv_destroy_event(last_);
  fakedrv_destroy_event(last_captured_);
}

ncclResult_t Communicator::state() {
  std::unique_lock lock(mutex_);
  if (result_ != ncclSuccess) return result_;
  if (polls_left_ > 0) --polls_left_;
  if (polls_left_ > 0 || num_jobs_ > 0) return ncclInProgress;
  while (!waiting_.empty()) {
    Group group = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    launch_now(std::move(group));
    lock.lock();
  }
  return result_;
}

ncclResult_t Communicator::wait() {
  ncclResult_t result = ncclInProgress;
  while ((result = state()) == ncclInProgress) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return result;
}

ncclResult_t Communicator::finalize() {
  work_on([this] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_running_ == 0 || has_left_; });
  });
  return is_blocking_ ? wait() : ncclInProgress;
}

void Communicator::leave(bool is_clean) {
  std::unique_lock lock(mutex_);
  has_left_ = true;
  if (result_ == ncclSuccess) result_ = ncclInvalidUsage;
  changed_.notify_all();
  if (fd_ < 0) return;
  if (!is_clean) return void(::shutdown(fd_, SHUT_RDWR));  // wakes who waits for the hub
  ::shutdown(fd_, SHUT_WR);
  char byte = 0;
  lock.unlock();
  static_cast<void>(::recv(fd_, &byte, 1, 0));
  lock.lock();
  ::close(std::exchange(fd_, -1));
}

Communicator::~Communicator() {
  if (fd_ >= 0) ::close(fd_);
}

std::string Communicator::last_error() {
  const std::lock_guard lock(mutex_);
  return text_;
}

ncclResult_t Communicator::fail(ncclResult_t result, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (result_ == ncclSuccess) {
    result_ = result;
    text_ = text;
  }
  return result_;
}

}  // namespace nccl_stand_in
