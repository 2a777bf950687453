#include <sys/resource.h>

#include <deque>
#include <functional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "served.hpp"
#include "store/sealed_channel.hpp"

namespace cohort::host {
namespace {

/// Many strangers who hold their connections until it goes, while others come and leave.
class Crowd {
 public:
  /// `act` does what a stranger does once it is connected.
  Crowd(const Served& served, int count, std::function<void(int descriptor)> act)
      : served_(served), act_(std::move(act)) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < count; ++i) held_.push_back(one_more());
    others_ = std::jthread([this](const std::stop_token& over) {
      std::deque<int> coming;
      while (!over.stop_requested()) {
        coming.push_back(one_more());
        std::this_thread::sleep_for(1ms);
        if (coming.size() <= kComing) continue;
        ::close(coming.front());
        coming.pop_front();
      }
      for (const int one : coming) ::close(one);
    });
  }
  ~Crowd() {
    others_ = {};
    for (const int one : held_) ::close(one);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  static constexpr std::size_t kComing = 200;

  int one_more() const {
    const int descriptor = served_.stranger();
    act_(descriptor);
    return descriptor;
  }

  const Served& served_;
  std::function<void(int descriptor)> act_;
  std::vector<int> held_;
  std::jthread others_;
};

void say_to(int descriptor, std::string_view bytes) {
  static_cast<void>(::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

class Crowds : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ServedStore, Crowds, ::testing::Values(true, false),
                         [](const auto& given) { return given.param ? "OnOneMachine" : "OverTcp"; });

TEST_P(Crowds, KeepNobodyOut) {
  constexpr int kCrowd = 1000;
  constexpr auto kSoon = 4s;  // tens of milliseconds on a machine that is not busy
  const std::string wrong =
      Greeting().bytes() + SealedChannel(SealedChannel::End::kClient, random_key(), {}, {}).seal("");
  const std::vector<std::pair<const char*, std::function<void(int)>>> ways{
      {"silent", [](int) {}},
      {"a byte", [](int descriptor) { say_to(descriptor, "c"); }},
      {"a greeting alone", [](int descriptor) { say_to(descriptor, Greeting().bytes()); }},
      {"a wrong proof", [&](int descriptor) { say_to(descriptor, wrong); }}};
  for (const auto& [what, act] : ways) {
    SCOPED_TRACE(what);
    Served served(GetParam());
    const Crowd crowd(served, kCrowd, act);
    const auto begin = std::chrono::steady_clock::now();
    served.client()->set("key", "value");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
  }
}

}  // namespace
}  // namespace cohort::host
