#include "rendezvous/tcp_store.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include <c10/util/Logging.h>

#include <cohort/host/error.hpp>
#include <cohort/launch/listening_socket.hpp>

#include "error_text.hpp"

namespace {

// Global, because getaddrinfo is given nothing but the name.
constinit std::atomic<bool> is_silent{true};

bool is_main_thread() {
  return ::gettid() == ::getpid();
}

}  // namespace

/// Stands in for the system's. Nobody knows "never.test"; the server that knows "later.test" is out of reach, and
/// while it is silent only LibTorch, which asks first and on the main thread, gets an answer at once.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  const std::string_view host = name ? name : "";
  if (host == "never.test") return EAI_NONAME;
  if (host == "later.test") {
    while (!is_main_thread() && is_silent.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return EAI_AGAIN;
  }
  const auto real = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, found);
}

namespace cohort {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kTimeout{100};

void connect_to(const char* host) {
  const TcpStore store({host, 1, {}, false}, kTimeout);
}

TEST(TcpStore, TakesANameThatNobodyKnowsForAMistake) {
  EXPECT_THAT(error_text<UserError>([] { connect_to("never.test"); }),
              HasSubstr("MASTER_ADDR 'never.test' cannot be resolved (Name or service not known); give a name"));
}

TEST(TcpStore, TakesANameServerThatDoesNotAnswerForAFailure) {
  for (const bool silent : {false, true}) {
    is_silent.store(silent);
    EXPECT_THAT(error_text<PeerFailed>([] { connect_to("later.test"); }),
                HasSubstr("MASTER_ADDR 'later.test' cannot be resolved (Temporary failure in name resolution); look"));
  }
  is_silent.store(false);
}

TEST(TcpStore, RestoresTheLogLevelThatThreadsShare) {
  const int before = FLAGS_caffe2_log_level;
  host::ListeningSocket socket("127.0.0.1", 0);
  const TcpStoreAddress address{"127.0.0.1", socket.port(), socket.release(), false};
  TcpStore store(address, std::chrono::seconds(30));
  const auto ask = [&] {
    for (int i = 0; i < 2000; ++i) store.try_get("no such key");
  };
  for (int round = 0; round < 5 && FLAGS_caffe2_log_level == before; ++round) {
    std::thread other(ask);
    ask();
    other.join();
  }
  EXPECT_EQ(FLAGS_caffe2_log_level, before);
}

TEST(TcpStore, EndsTheCallsOfOtherThreadsWhenItIsGivenUp) {
  host::ListeningSocket socket("127.0.0.1", 0);
  const TcpStoreAddress address{"127.0.0.1", socket.port(), socket.release(), false};
  TcpStore store(address, std::chrono::seconds(30));
  std::atomic<bool> has_asked{false};
  std::thread other([&] {
    EXPECT_THROW(
        {
          while (true) {
            store.try_get("no such key");
            has_asked = true;
            has_asked.notify_all();
          }
        },
        PeerFailed);
  });
  has_asked.wait(false);
  store.give_up();
  other.join();
  EXPECT_THROW(store.set("key", "value"), PeerFailed);
}

}  // namespace
}  // namespace cohort
