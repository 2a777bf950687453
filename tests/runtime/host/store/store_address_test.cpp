#include <dlfcn.h>
#include <gmock/gmock.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include <cohort/host/error.hpp>
#include <cohort/host/served_store.hpp>

#include "error_text.hpp"

namespace {

// Global, because getaddrinfo is given nothing but the name.
constinit std::atomic<int> lookups{0};

}  // namespace

/// Stands in for the system's. Nobody knows "never.test"; the server that knows "later.test" is out of reach, and that
/// of "slow.test" does not answer. "started.test" is known from the third question on.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  const std::string_view host = name ? name : "";
  if (host == "never.test") return EAI_NONAME;
  if (host == "later.test") return EAI_AGAIN;
  if (host == "slow.test") std::this_thread::sleep_for(std::chrono::seconds(3));
  if (host == "slow.test" || (host == "started.test" && ++lookups < 3)) return EAI_NONAME;
  const auto real = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(host == "started.test" ? "127.0.0.1" : name, service, hints, found);
}

namespace cohort::host {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

void connect_to(const char* host, std::chrono::nanoseconds timeout = 100ms) {
  connect_to_store({.host = host, .port = 1}, public_key(), timeout);
}

TEST(StoreAddress, TakesANameThatNobodyKnowsForAMistake) {
  EXPECT_THAT(error_text<UserError>([] { connect_to("never.test"); }),
              HasSubstr("MASTER_ADDR 'never.test' cannot be resolved (Name or service not known); give a name"));
}

TEST(StoreAddress, TakesANameServerThatDoesNotAnswerForAFailure) {
  for (const char* name : {"later.test", "slow.test"}) {
    EXPECT_THAT(error_text<PeerFailed>([&] { connect_to(name); }),
                HasSubstr("cannot be resolved (Temporary failure in name resolution); look"));
  }
}

TEST(StoreAddress, AsksAgainForANameThatIsNotKnownYet) {
  EXPECT_THAT(error_text<PeerFailed>([] { connect_to("started.test", 1s); }),
              HasSubstr("nobody answered at the rendezvous address started.test:1 within 1 s"));
}

}  // namespace
}  // namespace cohort::host
