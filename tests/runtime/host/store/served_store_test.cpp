#include <cohort/host/served_store.hpp>

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <cohort/host/error.hpp>

#include "error_text.hpp"
#include "served.hpp"
#include "store/sealed_channel.hpp"

namespace cohort::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kMostForStrangers = Greeting::kBytes + kRefusal.size();

class EachWay : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ServedStore, EachWay, ::testing::Values(true, false),
                         [](const auto& given) { return given.param ? "OnOneMachine" : "OverTcp"; });

TEST_P(EachWay, AllRanksSeeTheSameValues) {
  Served served(GetParam());
  const auto one = served.client(), other = served.client();
  one->set("key", std::string("a\0b", 3));
  EXPECT_EQ(other->try_get("key"), std::string("a\0b", 3));
  EXPECT_EQ(served.server().try_get("key"), std::string("a\0b", 3));
  EXPECT_EQ(other->try_get("no such key"), std::nullopt);
  EXPECT_EQ(one->add("count", 2), 2);
  EXPECT_EQ(served.server().add("count", -5), -3);
  EXPECT_EQ(other->add("count", 0), -3);
  EXPECT_EQ(one->count(), 2U);
  other->remove("key");
  EXPECT_EQ(one->try_get("key"), std::nullopt);
  const std::string large(3 << 20, 'x');
  one->set("large", large);
  EXPECT_EQ(other->get("large", kServedWait), large);
}

TEST_P(EachWay, AWaitEndsWhenTheKeyComes) {
  Served served(GetParam());
  const auto one = served.client(), other = served.client();
  std::atomic<int> found{0};
  const auto wait = [&](Store& store, const char* key) {
    if (store.get(key, kServedWait) == "value") ++found;
  };
  {
    std::jthread client([&] { wait(*one, "of the server"); });
    std::jthread server([&] { wait(served.server(), "of a client"); });
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(found, 0);
    served.server().set("of the server", "value");
    other->set("of a client", "value");
  }
  EXPECT_EQ(found, 2);
}

TEST_P(EachWay, AWaitOfOneThreadKeepsNoOtherOneWaiting) {
  Served served(GetParam());
  const auto client = served.client();
  std::jthread one([&] { EXPECT_EQ(client->get("first", kServedWait), "value"); });
  std::jthread other([&] { EXPECT_EQ(client->get("second", kServedWait), "value"); });
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(client->add("count", 1), i);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kServedWait / 2) << "each call has waited for the end of a wait";
  client->set("second", "value");
  other.join();
  client->set("first", "value");
}

TEST_P(EachWay, AWaitEndsAtItsTime) {
  Served served(GetParam());
  const auto client = served.client();
  for (Store* store : {client.get(), &served.server()}) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(store->get("never", 70ms), std::nullopt);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 70ms);
  }
}

TEST_P(EachWay, ARankWithAnotherSecretIsRefused) {
  Served served(GetParam());
  EXPECT_THAT(error_text<UserError>([&] { connect_to_store(served.address(), random_key(), kServedWait); }),
              HasSubstr("do not have the same job secret; give all ranks of a job the same COHORT_JOB_SECRET_FILE"));
  EXPECT_THAT(error_text<UserError>([&] { connect_to_store(served.address(), public_key(), kServedWait); }),
              HasSubstr("the same job secret"));
  EXPECT_THAT(served.warnings(), ElementsAre(HasSubstr("does not know this job's secret")));
  served.client()->set("key", "value");
}

TEST_P(EachWay, StrangersLearnNothing) {
  Served served(GetParam());
  served.server().set("key", "value");
  const std::string greeting = Greeting().bytes();
  const std::vector<std::string> attempts{
      "GET / HTTP/1.1\r\nHost: here\r\n\r\n" + std::string(100, 'x'),
      std::string(64, '\0'),
      std::string(64, '\xff'),
      "cohort 0" + greeting.substr(8),
      greeting + std::string(4, '\xff'),                                                     // the longest frame
      greeting + std::string("\x10\0\0\0", 4) + std::string(16, 'x'),                        // a forged proof
      greeting + SealedChannel(SealedChannel::End::kClient, random_key(), {}, {}).seal(""),  // one with another key
  };
  for (const std::string& attempt : attempts) {
    const std::string answer = answer_to(served.stranger(), attempt);
    EXPECT_LE(answer.size(), kMostForStrangers) << "the greeting is random, and the refusal the same for all";
    EXPECT_EQ(answer.find("still open"), std::string::npos);
  }
  EXPECT_EQ(served.client()->try_get("key"), "value");
}

/// Somebody on the way between one client and the server, who takes down what the client sends.
class Between {
 public:
  explicit Between(const Served& served) : server_(served.stranger()), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof place;
    ::bind(listener_, reinterpret_cast<const sockaddr*>(&place), sizeof place);
    ::listen(listener_, 1);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&place), &length);
    address_ = {.host = "127.0.0.1", .port = ntohs(place.sin_port)};
    thread_ = std::jthread([this] { run(); });
  }
  ~Between() {
    thread_.join();
    ::close(server_);
    ::close(listener_);
  }
  Between(const Between&) = delete;
  Between& operator=(const Between&) = delete;

  const StoreAddress& address() const { return address_; }
  void change_what_comes() { changes_ = true; }
  std::string recording() {
    const std::lock_guard lock(mutex_);
    return recording_;
  }

 private:
  void run() {
    const int client = ::accept(listener_, nullptr, nullptr);
    std::array<pollfd, 2> waits{{{client, POLLIN, 0}, {server_, POLLIN, 0}}};
    std::array<char, 4096> piece{};
    while (::poll(waits.data(), waits.size(), -1) > 0) {
      const bool is_client = waits[0].revents != 0;
      const ssize_t bytes = ::recv(is_client ? client : server_, piece.data(), piece.size(), 0);
      if (bytes <= 0) break;
      if (changes_) piece[static_cast<std::size_t>(bytes - 1)] ^= 1;
      const std::string_view passed(piece.data(), static_cast<std::size_t>(bytes));
      if (is_client) {
        const std::lock_guard lock(mutex_);
        recording_ += passed;
      }
      static_cast<void>(::send(is_client ? server_ : client, passed.data(), passed.size(), MSG_NOSIGNAL));
    }
    ::close(client);
    ::shutdown(server_, SHUT_RDWR);
  }

  int server_, listener_;
  StoreAddress address_;
  std::atomic<bool> changes_{false};
  std::mutex mutex_;
  std::string recording_;
  std::jthread thread_;
};

TEST(ServedStore, ARecordingOfARankOpensNothing) {
  Served served(false);
  std::string recording;
  {
    Between between(served);
    const auto client = connect_to_store(between.address(), served.key(), kServedWait);
    client->add("count", 1);
    recording = between.recording();
  }
  EXPECT_GT(recording.size(), 2 * Greeting::kBytes);
  EXPECT_EQ(answer_to(served.stranger(), recording).size(), kMostForStrangers);
  EXPECT_EQ(served.server().add("count", 0), 1);
}

TEST(ServedStore, AChangedMessageIsNotTakenForAnAnswer) {
  Served served(false);
  served.server().set("key", "value");
  Between between(served);
  const auto client = connect_to_store(between.address(), served.key(), kServedWait);
  EXPECT_EQ(client->try_get("key"), "value");
  between.change_what_comes();
  EXPECT_THROW(client->set("key", "other"), PeerFailed);
  EXPECT_EQ(served.server().try_get("key"), "value");
}

TEST_P(EachWay, NobodyConnectsOnceAllRanksHaveMet) {
  Served served(GetParam());
  const auto client = served.client();
  served.server().all_ranks_met();
  const auto deadline = std::chrono::steady_clock::now() + kServedWait;
  int stranger = 0;
  while (stranger >= 0 && std::chrono::steady_clock::now() < deadline) {
    stranger = served.stranger();
    if (stranger >= 0) ::close(stranger);
  }
  EXPECT_EQ(stranger, -1);
  client->set("key", "value");
  EXPECT_EQ(served.server().try_get("key"), "value");
  EXPECT_THROW(served.client(100ms), PeerFailed);
}

TEST_P(EachWay, CallsOfOtherThreadsEndWhenItIsGivenUp) {
  Served served(GetParam());
  const auto client = served.client();
  for (Store* store : {client.get(), &served.server()}) {
    std::jthread other([&] { EXPECT_THROW(store->get("never", kServedWait), PeerFailed); });
    std::this_thread::sleep_for(30ms);
    const auto begin = std::chrono::steady_clock::now();
    store->give_up();
    other.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kServedWait / 2);
    EXPECT_THROW(store->set("key", "value"), PeerFailed);
  }
}

TEST_P(EachWay, AServerThatIsGoneIsAFailureOfItsRank) {
  Served served(GetParam());
  const auto client = served.client();
  served.end();
  EXPECT_THAT(error_text<PeerFailed>([&] { client->try_get("key"); }), HasSubstr("that process is gone or stopped"));
}

TEST(ServedStore, AConnectionThatIsCutIsNoRefusal) {
  const Key key = random_key();
  const std::string name = "cut-" + std::to_string(::getpid());
  const int listener = listen_locally(name);
  std::jthread server([&] {  // first one that hangs up in the middle, then the store
    const int client = ::accept(listener, nullptr, nullptr);
    std::array<char, Greeting::kBytes> bytes{};
    ::recv(client, bytes.data(), bytes.size(), MSG_WAITALL);
    const std::string greeting = Greeting().bytes();
    ::send(client, greeting.data(), greeting.size(), MSG_NOSIGNAL);
    ::close(client);
  });
  std::unique_ptr<Store> store;
  std::jthread rank([&] { connect_to_store({.local = name}, key, kServedWait)->set("key", "value"); });
  server.join();
  store = serve_store(listener, key, {});
  EXPECT_EQ(store->get("key", kServedWait), "value");
}

TEST(ServedStore, AServerThatIsStoppedIsGivenUpInTime) {
  Served served(true);
  const int listener = listen_locally("stopped-" + std::to_string(::getpid()));  // nobody accepts
  EXPECT_THAT(error_text<PeerFailed>(
                  [&] { connect_to_store({.local = "stopped-" + std::to_string(::getpid())}, served.key(), 200ms); }),
              HasSubstr("rank 0 of this job did not come within 0 s"));
  ::close(listener);
}

TEST(ServedStore, AProcessOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Served served(true);
  served.server().set("key", "value");
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(54321) != 0) ::_exit(1);
    const int descriptor = served.stranger();  // the system lets everybody connect
    ::_exit(descriptor < 0 || answer_to(descriptor, Greeting().bytes()).empty() ? 0 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(served.warnings(), ElementsAre(HasSubstr("a process of another user (uid 54321) tried to join")));
}

TEST(ServedStore, ASecondRank0IsRefused) {
  Served served(true);
  EXPECT_THAT(error_text<UserError>([&] { listen_locally(served.address().local); }),
              HasSubstr("another rank 0 of the same job runs on this machine; give this job a MASTER_PORT of its own"));
}

}  // namespace
}  // namespace cohort::host
