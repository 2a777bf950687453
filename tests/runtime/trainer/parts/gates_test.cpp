// Toy jobs of threads go through the gates: order, exclusion, limits, and the end of a batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <initializer_list>
#include <latch>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parts/gates.hpp"

namespace cohort::testing {
namespace {

using Sizes = std::initializer_list<size_t>;

constexpr std::chrono::seconds kHang{120};

std::vector<size_t> rising(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

std::vector<size_t> falling(size_t count) {
  std::vector<size_t> numbers = rising(count);
  std::ranges::reverse(numbers);
  return numbers;
}

/// The limits of one-forward-one-backward.
std::vector<uint32_t> limits_of_1f1b(size_t parts) {
  std::vector<uint32_t> limits;
  for (size_t part = 0; part < parts; ++part) limits.push_back(static_cast<uint32_t>(parts - part));
  return limits;
}

/// Writes down what happens on a part. Only the piece that is there touches the vectors.
struct PartRecord {
  std::atomic<int> inside{0}, in_flight{0}, most_inside{0}, most_in_flight{0};
  std::vector<size_t> forward, backward;

  static void raise(std::atomic<int>& most, int value) {
    for (int seen = most; seen < value && !most.compare_exchange_weak(seen, value);) {
    }
  }
  void enter() { raise(most_inside, ++inside); }
  void leave() { --inside; }
};

/// Threads that run the pieces of one batch: lane i runs the pieces i, i + lanes, and so on.
class ToyBatch {
 public:
  ToyBatch(Gates& gates, size_t parts, size_t pieces, size_t lanes)
      : gates_(gates), parts_(parts), pieces_(pieces), lanes_(lanes) {}

  void run() {
    gates_.begin(pieces_, [this](size_t part) { complete(part); });
    std::vector<std::future<void>> lanes;
    for (size_t lane = 0; lane < lanes_; ++lane) {
      lanes.push_back(std::async(std::launch::async, [this, lane] {
        for (size_t piece = lane; piece < pieces_; piece += lanes_) visit(piece);
      }));
    }
    for (std::future<void>& lane : lanes) {
      if (lane.wait_for(kHang) == std::future_status::ready) continue;
      ADD_FAILURE() << "the pieces wait for each other";
      gates_.close();
    }
    for (std::future<void>& lane : lanes) EXPECT_NO_THROW(lane.get());
  }

  void expect_order() const {
    for (const PartRecord& record : parts_) {
      EXPECT_EQ(record.forward, rising(pieces_));
      EXPECT_EQ(record.backward, rising(pieces_));
      EXPECT_EQ(record.most_inside, 1);
    }
    EXPECT_EQ(completed_, falling(parts_.size()));
  }
  void expect_within(const std::vector<uint32_t>& limits) const {
    for (size_t part = 0; part < parts_.size(); ++part) {
      EXPECT_LE(parts_[part].most_in_flight, static_cast<int>(limits[part])) << "part " << part;
    }
  }

 private:
  Gates& gates_;
  std::vector<PartRecord> parts_;
  size_t pieces_, lanes_;
  std::vector<size_t> completed_;

  void visit(size_t piece) {
    for (size_t part = 0; part < parts_.size(); ++part) {
      PartRecord& record = parts_[part];
      gates_.enter_forward(part, piece);
      record.enter();
      PartRecord::raise(record.most_in_flight, ++record.in_flight);
      record.forward.push_back(piece);
      std::this_thread::yield();
      record.leave();
      gates_.leave_forward(part);
    }
    for (size_t part = parts_.size(); part-- > 0;) {
      PartRecord& record = parts_[part];
      gates_.enter_backward(part, piece);
      record.enter();
      record.backward.push_back(piece);
      std::this_thread::yield();
      --record.in_flight;
      record.leave();
      gates_.leave_backward(part);
    }
  }

  void complete(size_t part) {
    EXPECT_EQ(parts_[part].backward, rising(pieces_)) << "part " << part << " is complete too early";
    completed_.push_back(part);
  }
};

/// A call of another thread that shall end by GatesClosed.
std::future<bool> ends_by_close(std::latch& about_to_wait, std::function<void()> wait) {
  return std::async(std::launch::async, [&about_to_wait, wait = std::move(wait)] {
    about_to_wait.count_down();
    try {
      wait();
    } catch (const GatesClosed&) {
      return true;
    }
    return false;
  });
}

TEST(Gates, KeepTheOrderOfPieces) {
  for (const size_t parts : Sizes{1, 2, 4}) {
    for (const size_t lanes : Sizes{1, 2, 3, 9}) {
      SCOPED_TRACE(std::to_string(parts) + " parts, " + std::to_string(lanes) + " lanes");
      Gates gates(std::vector<uint32_t>(parts, 0));
      ToyBatch batch(gates, parts, 9, lanes);
      batch.run();
      batch.expect_order();
    }
  }
}

TEST(Gates, RunOneForwardOneBackward) {
  for (size_t parts = 1; parts <= 5; ++parts) {
    for (size_t pieces = 1; pieces <= 9; ++pieces) {
      SCOPED_TRACE(std::to_string(parts) + " parts, " + std::to_string(pieces) + " pieces");
      Gates gates(limits_of_1f1b(parts));
      ToyBatch batch(gates, parts, pieces, parts);
      batch.run();
      batch.expect_order();
      batch.expect_within(limits_of_1f1b(parts));
    }
  }
}

TEST(Gates, HoldOtherLimits) {
  for (const auto& limits : {std::vector<uint32_t>{1, 1, 1}, {2, 2, 2}, {1, 3, 2}, {4, 1, 1}}) {
    for (const size_t lanes : Sizes{1, 3, 8}) {
      SCOPED_TRACE(std::to_string(limits[0]) + " on the first part, " + std::to_string(lanes) + " lanes");
      Gates gates(limits);
      ToyBatch batch(gates, 3, 8, lanes);
      batch.run();
      batch.expect_order();
      batch.expect_within(limits);
    }
  }
}

// One thread: it would block if the gates let fewer pieces in.
TEST(Gates, LetInAsManyAsTheLimit) {
  for (const uint32_t limit : {0U, 1U, 3U}) {
    Gates gates({limit});
    const size_t pieces = limit == 0 ? 9 : limit;
    size_t completed = 0;
    gates.begin(pieces, [&](size_t) { ++completed; });
    auto visits = std::async(std::launch::async, [&] {
      for (size_t piece = 0; piece < pieces; ++piece) {
        gates.enter_forward(0, piece);
        gates.leave_forward(0);
      }
      for (size_t piece = 0; piece < pieces; ++piece) {
        EXPECT_EQ(completed, 0U);
        gates.enter_backward(0, piece);
        gates.leave_backward(0);
      }
    });
    if (visits.wait_for(kHang) != std::future_status::ready) gates.close();
    EXPECT_NO_THROW(visits.get());
    EXPECT_EQ(completed, 1U);
  }
}

TEST(Gates, CompleteAPartOnTheLastThread) {
  Gates gates({0, 0});
  std::vector<std::pair<size_t, std::thread::id>> completed;
  gates.begin(1, [&](size_t part) { completed.emplace_back(part, std::this_thread::get_id()); });
  for (const size_t part : Sizes{0, 1}) {
    gates.enter_forward(part, 0);
    gates.leave_forward(part);
  }
  gates.enter_backward(1, 0);
  EXPECT_TRUE(completed.empty());
  gates.leave_backward(1);
  const auto here = std::this_thread::get_id();
  EXPECT_EQ(completed, (decltype(completed){{1, here}}));
  gates.enter_backward(0, 0);
  gates.leave_backward(0);
  EXPECT_EQ(completed, (decltype(completed){{1, here}, {0, here}}));
}

TEST(Gates, EndAllWaitsWhenClosed) {
  Gates gates({1, 0});
  gates.begin(4, [](size_t part) { ADD_FAILURE() << "part " << part; });
  gates.enter_forward(0, 0);
  gates.leave_forward(0);
  gates.enter_forward(1, 0);  // stays there
  std::latch about_to_wait(5);
  std::vector<std::future<bool>> waits;
  waits.push_back(ends_by_close(about_to_wait, [&] { gates.enter_forward(0, 1); }));   // no room
  waits.push_back(ends_by_close(about_to_wait, [&] { gates.enter_forward(0, 3); }));   // not its turn
  waits.push_back(ends_by_close(about_to_wait, [&] { gates.enter_forward(1, 1); }));   // busy
  waits.push_back(ends_by_close(about_to_wait, [&] { gates.enter_backward(1, 0); }));  // busy
  waits.push_back(ends_by_close(about_to_wait, [&] { gates.enter_backward(0, 1); }));  // not its turn
  about_to_wait.wait();
  gates.close();
  for (auto& wait : waits) EXPECT_TRUE(wait.get());
  gates.leave_forward(1);
  EXPECT_THROW(gates.enter_forward(1, 1), GatesClosed);
  EXPECT_THROW(gates.enter_backward(1, 0), GatesClosed);
}

TEST(Gates, BeginAnotherBatchAfterClose) {
  Gates gates(limits_of_1f1b(3));
  gates.begin(2, [](size_t part) { ADD_FAILURE() << "part " << part; });
  gates.enter_forward(0, 0);
  std::latch about_to_wait(1);
  auto wait = ends_by_close(about_to_wait, [&] { gates.enter_backward(0, 0); });
  about_to_wait.wait();
  gates.close();
  EXPECT_TRUE(wait.get());
  for (const size_t pieces : Sizes{5, 2}) {
    ToyBatch batch(gates, 3, pieces, 3);
    batch.run();
    batch.expect_order();
    batch.expect_within(limits_of_1f1b(3));
  }
}

}  // namespace
}  // namespace cohort::testing
