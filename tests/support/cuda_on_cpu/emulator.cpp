#include "emulator.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fiber.hpp"
#include "sanitizers.hpp"

namespace cuda_on_cpu {

thread_local constinit Position position{};

namespace {

enum class State { kRuns, kAtBarrier, kAtExchange, kLeft };

/// A thread of the block.
struct Thread {
  std::unique_ptr<Fiber> fiber;
  State state = State::kLeft;
  std::source_location place;  // where it waits
  bool vote = false;           // at a barrier
  unsigned lanes = 0;          // at an exchange
  unsigned from = 0;
  uint64_t given = 0;
  uint64_t received = 0;
};

/// The names by which ThreadSanitizer knows a barrier. The next one has the other name, or who comes early to it would
/// be ordered before who leaves this one late.
struct Barrier {
  char names[2] = {};
  unsigned turn = 0;

  void* name() { return &names[turn % 2]; }
};

std::string text_of(const std::source_location& place) {
  const std::string file = place.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(place.line());
}

bool is_same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() && std::string_view(a.file_name()) == b.file_name();
}

class Block {
 public:
  Order order = Order::kForward;

  void run(Size blocks, unsigned threads, const std::function<void()>& kernel);
  bool sync(bool value, const std::source_location& place);
  uint64_t exchange(unsigned lanes, uint64_t value, unsigned from, const std::source_location& place);

 private:
  const std::function<void()>* kernel_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Barrier> warps_;
  Barrier barrier_;
  char start_ = 0, end_ = 0;
  std::vector<unsigned> numbers_;  // of the threads, in the order in which they run
  unsigned size_ = 0;
  unsigned running_ = 0;
  bool vote_ = false;  // of the last barrier
  std::string fault_;  // of the thread that ran last

  void run_block();
  void step(unsigned index);
  bool release();
  bool release_barrier();
  bool release_exchange(unsigned index);
  void wait(State state, const std::source_location& place);
  [[noreturn]] void fail(const std::string& what);
  std::string what_blocks() const;
  void put_in_order();
};

void Block::put_in_order() {
  numbers_.resize(size_);
  std::iota(numbers_.begin(), numbers_.end(), 0u);
  if (order == Order::kBackward) std::reverse(numbers_.begin(), numbers_.end());
  if (order == Order::kMixed) std::shuffle(numbers_.begin(), numbers_.end(), std::mt19937(size_));
}

void Block::run(Size blocks, unsigned threads, const std::function<void()>& kernel) {
  kernel_ = &kernel;
  size_ = threads;
  fault_.clear();
  warps_.resize((threads + kLanes - 1) / kLanes);
  put_in_order();
  while (threads_.size() < threads) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->fiber = std::make_unique<Fiber>([this] {
      acquired(&start_);
      acquired(&end_);  // of the block before, which had the same shared memory
      (*kernel_)();
      released(&end_);
      threads_[running_]->state = State::kLeft;
    });
  }
  released(&start_);
  position.block_size = {threads, 1, 1};
  position.grid_size = blocks;
  for (position.block.z = 0; position.block.z < blocks.z; ++position.block.z) {
    for (position.block.y = 0; position.block.y < blocks.y; ++position.block.y) {
      for (position.block.x = 0; position.block.x < blocks.x; ++position.block.x) run_block();
    }
  }
  acquired(&end_);
}

void Block::run_block() {
  for (unsigned index = 0; index < size_; ++index) threads_[index]->state = State::kRuns;
  do {
    for (const unsigned index : numbers_) {
      if (threads_[index]->state == State::kRuns) step(index);
    }
  } while (release());
}

void Block::step(unsigned index) {
  running_ = index;
  position.thread = {index, 0, 0};
  threads_[index]->fiber->enter();
  if (!fault_.empty()) fail(fault_);
}

/// Returns true if threads go on, false if all have left.
bool Block::release() {
  bool is_any = false;
  for (unsigned index = 0; index < size_; ++index) is_any |= release_exchange(index);
  if (is_any || release_barrier()) return true;
  for (unsigned index = 0; index < size_; ++index) {
    if (threads_[index]->state != State::kLeft) fail(what_blocks());
  }
  return false;
}

bool Block::release_barrier() {
  bool vote = false;
  for (unsigned index = 0; index < size_; ++index) {
    const Thread& thread = *threads_[index];
    if (thread.state != State::kAtBarrier || !is_same(thread.place, threads_[0]->place)) return false;
    vote |= thread.vote;
  }
  vote_ = vote;
  ++barrier_.turn;
  for (unsigned index = 0; index < size_; ++index) threads_[index]->state = State::kRuns;
  return true;
}

/// Lets the lanes of a warp go on that this thread waits for, if all of them have come.
bool Block::release_exchange(unsigned index) {
  const Thread& first = *threads_[index];
  if (first.state != State::kAtExchange) return false;
  const unsigned warp = index - index % kLanes;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!(first.lanes >> lane & 1)) continue;
    if (warp + lane >= size_) return false;
    const Thread& other = *threads_[warp + lane];
    const bool has_come =
        other.state == State::kAtExchange && other.lanes == first.lanes && is_same(other.place, first.place);
    if (!has_come) return false;
  }
  ++warps_[warp / kLanes].turn;
  const unsigned lanes = first.lanes;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    Thread& thread = *threads_[warp + lane];
    thread.received = threads_[warp + thread.from]->given;
    thread.state = State::kRuns;
  }
  return true;
}

/// Says why nobody can go on.
std::string Block::what_blocks() const {
  for (unsigned index = 0; index < size_; ++index) {
    const Thread& thread = *threads_[index];
    if (thread.state != State::kAtExchange) continue;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned other = index - index % kLanes + lane;
      const bool is_named = thread.lanes >> lane & 1;
      if (!is_named || (other < size_ && threads_[other]->state == State::kAtExchange &&
                        is_same(threads_[other]->place, thread.place))) {
        continue;
      }
      return "lane " + std::to_string(lane) + " does not come to the shuffle at " + text_of(thread.place) +
             ", where thread " + std::to_string(index) + " waits for it";
    }
  }
  const Thread* waits = nullptr;
  for (unsigned index = 0; index < size_ && !waits; ++index) {
    if (threads_[index]->state == State::kAtBarrier) waits = threads_[index].get();
  }
  for (unsigned index = 0; index < size_ && waits; ++index) {
    const Thread& other = *threads_[index];
    const std::string name = "thread " + std::to_string(index);
    if (other.state == State::kLeft) return name + " has left before the barrier at " + text_of(waits->place);
    if (!is_same(other.place, waits->place)) {
      return name + " waits at the barrier at " + text_of(other.place) + ", others at " + text_of(waits->place);
    }
  }
  return "its threads name different lanes at a shuffle";
}

void Block::fail(const std::string& what) {
  const std::string text = "block " + std::to_string(position.block.x) + ": " + what;
  acquired(&end_);
  threads_.clear();  // their fibers cannot go on
  throw Fault(text);
}

/// In a fiber: suspends it.
void Block::wait(State state, const std::source_location& place) {
  Thread& thread = *threads_[running_];
  thread.state = state;
  thread.place = place;
  released(&end_);  // it may never go on
  thread.fiber->leave();
}

bool Block::sync(bool value, const std::source_location& place) {
  threads_[running_]->vote = value;
  void* const name = barrier_.name();
  released(name);
  wait(State::kAtBarrier, place);
  acquired(name);
  return vote_;
}

uint64_t Block::exchange(unsigned lanes, uint64_t value, unsigned from, const std::source_location& place) {
  const unsigned index = running_;
  Thread& thread = *threads_[index];
  if (!(lanes >> (index % kLanes) & 1) || !(lanes >> from & 1)) {
    fault_ = "thread " + std::to_string(index) + " exchanges with lane " + std::to_string(from) + " at " +
             text_of(place) + ", and the lanes that it names lack one of the two";
    wait(State::kAtExchange, place);  // for ever
  }
  thread.given = value;
  thread.from = from;
  thread.lanes = lanes;
  void* const name = warps_[index / kLanes].name();
  released(name);
  wait(State::kAtExchange, place);
  acquired(name);
  return thread.received;
}

Block& block() {
  static thread_local Block block;
  return block;
}

}  // namespace

void set_order(Order order) {
  block().order = order;
}

void run(Size blocks, unsigned threads, const std::function<void()>& kernel) {
  block().run(blocks, threads, kernel);
}

bool sync_block(bool value, const std::source_location& place) {
  return block().sync(value, place);
}

uint64_t exchange(unsigned lanes, uint64_t value, unsigned from, const std::source_location& place) {
  return block().exchange(lanes, value, from, place);
}

}  // namespace cuda_on_cpu
