// Deadlines of the example examples/plugins/tcp_collective when poll always has something to tell: only a clock ends
// the wait then. Rank 0 is the plugin's, and rank 1 a thread with a socket.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "memory_store.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"

namespace cohort::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::ElementsAre;

constexpr auto kTimeout = 500ms;
constexpr uint32_t kMagic = 0x70637463;

/// What rank 0 leaves in the store, and what rank 1 says first: as group.c has them.
struct Card {
  uint32_t magic, address;
  uint16_t port, reserved;
  int32_t size;
  std::array<unsigned char, 16> token;
};
struct Hello {
  uint32_t magic;
  int32_t rank;
  std::array<unsigned char, 16> token;
};

class Socket {
 public:
  Socket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void call(const Card& host) const {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = host.port;
    place.sin_addr.s_addr = host.address;
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  }
  bool send(const void* data, size_t nbytes) const {
    return ::send(fd_, data, nbytes, MSG_NOSIGNAL) == static_cast<ssize_t>(nbytes);
  }

 private:
  int fd_;
};

class TcpCollective : public testing::Test {
 protected:
  Card card_of_rank_0() {
    Card card{};
    uint64_t nbytes = 0;
    cohort_store* const store = store_.handle();
    const auto wait = std::chrono::nanoseconds(20s).count();
    EXPECT_EQ(store->vt->get(store, "tcp/0", wait, &card, sizeof card, &nbytes), COHORT_OK);
    EXPECT_EQ(card.magic, kMagic);
    return card;
  }
  RankComm connected(std::chrono::nanoseconds timeout = kTimeout) {
    const cohort_plugin& plugin = open_plugin(COHORT_TEST_TCP);
    return RankComm(component_of(plugin, COHORT_KIND_COLLECTIVE), store_.handle(), 0, 2, timeout);
  }

  MemoryStore store_;
};

// It takes some seconds until all of these messages have come.
TEST_F(TcpCollective, KeepsTheDeadlineOfAnExchangeThatAlwaysGoesOn) {
  constexpr size_t kMessages = 4'000'000;
  std::thread peer([this] {
    const Socket socket;
    const Card card = card_of_rank_0();
    socket.call(card);
    const Hello hello{kMagic, 1, card.token};
    socket.send(&hello, sizeof hello);
    constexpr std::array<char, 9> kMessage{1};  // its length in eight bytes, and its byte
    std::vector<char> many;
    for (int i = 0; i < 10'000; ++i) many.insert(many.end(), kMessage.begin(), kMessage.end());
    while (socket.send(many.data(), many.size())) {
    }
  });
  {
    RankComm comm = connected();
    char byte = 0;
    const std::vector<cohort_message> messages(kMessages, {&byte, 1, 1, 0});
    const CallFailed failed = failure_of([&] { comm.exchange(messages); });
    EXPECT_EQ(failed.status(), COHORT_DEADLINE_EXCEEDED) << failed.what();
    EXPECT_THAT(failed.peers(), ElementsAre(1));
  }
  peer.join();
}

/// Lets the process open no more files.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{3, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

TEST_F(TcpCollective, KeepsTheDeadlineOfAConnectThatCannotAccept) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's check of types needs files of its own";
#endif
  constexpr auto kLate = 5s;
  std::promise<void> over;
  std::thread peer([&] {
    const Socket socket;
    const Card card = card_of_rank_0();
    const NoMoreFiles none;  // who calls stays in the queue, and keeps the listener readable
    socket.call(card);
    over.get_future().wait_for(kLate);
  });
  const auto begin = steady_clock::now();
  const CallFailed failed = failure_of([&] { connected(); });
  EXPECT_LT(steady_clock::now() - begin, kLate) << "it waited for files";
  over.set_value();
  peer.join();
  EXPECT_EQ(failed.status(), COHORT_DEADLINE_EXCEEDED) << failed.what();
  EXPECT_THAT(failed.peers(), ElementsAre(1));
}

}  // namespace
}  // namespace cohort::test
