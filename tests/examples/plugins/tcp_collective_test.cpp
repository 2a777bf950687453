// The example examples/plugins/tcp_collective among strangers, and its deadlines when poll always has something to
// tell: only a clock ends the wait then. If rank 0 alone is the plugin's, rank 1 is a thread with a socket.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "memory_store.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"
#include "ranks.hpp"
#include "strangers.hpp"

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
};
using Bits = std::array<unsigned char, 32>;
struct Hello {
  uint32_t magic;
  int32_t rank;
  Bits nonce, proof;
};

/// Returns the proof of `from` to `to`: a MAC over both ranks and their nonces.
Bits proof_of(int32_t from, const Bits& nonce_from, int32_t to, const Bits& nonce_to) {
  std::array<unsigned char, 72> text{};
  std::memcpy(text.data(), &from, 4);
  std::memcpy(text.data() + 4, nonce_from.data(), 32);
  std::memcpy(text.data() + 36, &to, 4);
  std::memcpy(text.data() + 40, nonce_to.data(), 32);
  Bits proof{};
  ::crypto_auth(proof.data(), text.data(), text.size(), kGroupKey.data());
  return proof;
}

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
  bool receive(Bits& bits) const {
    return ::recv(fd_, bits.data(), bits.size(), MSG_WAITALL) == static_cast<ssize_t>(bits.size());
  }
  /// Introduces this end as rank 1 to rank 0. Returns whether rank 0 proves itself.
  bool greet() const {
    Bits nonce{}, proof{};
    Hello hello{kMagic, 1, {7}, {}};
    if (!receive(nonce)) return false;
    hello.proof = proof_of(1, hello.nonce, 0, nonce);
    return send(&hello, sizeof hello) && receive(proof) && proof == proof_of(0, nonce, 1, hello.nonce);
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

// Says on a second connection what rank 1 has said on a first: a recording gives nobody a place.
TEST_F(TcpCollective, TakesNoProofTwice) {
  std::thread peer([this] {
    const Card card = card_of_rank_0();
    const Socket first, second;
    Bits nonce{}, proof{};
    first.call(card);
    second.call(card);
    EXPECT_TRUE(first.receive(nonce));
    const Hello hello{kMagic, 1, {7}, proof_of(1, {7}, 0, nonce)};
    EXPECT_TRUE(second.receive(nonce));
    EXPECT_TRUE(second.send(&hello, sizeof hello));
    EXPECT_FALSE(second.receive(proof)) << "it took a proof of another connection";
  });
  const CallFailed failed = failure_of([&] { connected(); });
  peer.join();
  EXPECT_EQ(failed.status(), COHORT_DEADLINE_EXCEEDED) << failed.what();
}

TEST_F(TcpCollective, ShowsOutARankWithAnotherKey) {
  const cohort_component& component = component_of(open_plugin(COHORT_TEST_TCP), COHORT_KIND_COLLECTIVE);
  run_as_threads(2, [&](int rank) {
    const GroupKey key{static_cast<unsigned char>(rank)};
    const CallFailed failed = failure_of([&] { RankComm(component, store_.handle(), rank, 2, kTimeout, {}, {}, key); });
    EXPECT_EQ(failed.status(), rank == 0 ? COHORT_DEADLINE_EXCEEDED : COHORT_UNAVAILABLE) << failed.what();
    EXPECT_THAT(failed.peers(), ElementsAre(1 - rank));
  });
}

TEST_F(TcpCollective, ConnectsAmongStrangers) {
  const cohort_component& component = component_of(open_plugin(COHORT_TEST_TCP), COHORT_KIND_COLLECTIVE);
  const Strangers strangers({"", "GET / HTTP/1.1\r\n\r\n", std::string(1000, 'x')});
  constexpr uint64_t kCalls = 100;
  const auto end = steady_clock::now() + 120s;  // a hang only
  while (strangers.calls() < kCalls && steady_clock::now() < end) {
    MemoryStore store;
    run_as_threads(3, [&](int rank) {
      RankComm comm(component, store.handle(), rank, 3);
      int32_t sent = rank, received = -1;
      comm.exchange({{&sent, sizeof sent, (rank + 1) % 3, 1}, {&received, sizeof received, (rank + 2) % 3, 0}});
      EXPECT_EQ(received, (rank + 2) % 3);
    });
  }
  EXPECT_GE(strangers.calls(), kCalls) << "nobody disturbed the ranks";
}

// It takes some seconds until all of these messages have come.
TEST_F(TcpCollective, KeepsTheDeadlineOfAnExchangeThatAlwaysGoesOn) {
  constexpr size_t kMessages = 4'000'000;
  std::thread peer([this] {
    const Socket socket;
    const Card card = card_of_rank_0();
    socket.call(card);
    EXPECT_TRUE(socket.greet());
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
  constexpr auto kLate = 60s;
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
