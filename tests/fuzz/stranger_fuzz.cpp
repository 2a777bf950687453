// Whatever a stranger sends to rank 0's store: it is told a greeting at most, and nothing is served. Whatever a rank
// sends in its sealed frames: it is a request as it was written, or none.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "fuzz.hpp"
#include "store/store_connection.hpp"

namespace {

using namespace cohort;

void be_a_stranger(std::string_view bytes) {
  static const host::Key key = host::random_key();
  std::array<int, 2> ends{};
  fuzz::require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0, "no pair of sockets");
  host::StoreConnection server(ends[0], key);
  const auto serve = [](const host::StoreRequest&) -> std::optional<host::StoreAnswer> {
    fuzz::require(false, "a stranger was served");
    return std::nullopt;
  };
  bool goes_on = true;
  for (constexpr std::size_t kPiece = 100; goes_on && !bytes.empty();) {
    const std::string_view piece = bytes.substr(0, kPiece);
    fuzz::require(::send(ends[1], piece.data(), piece.size(), MSG_NOSIGNAL) > 0, "a piece was not sent");
    goes_on = server.receive(serve);
    bytes.remove_prefix(piece.size());
  }
  fuzz::require(server.is_stranger(), "somebody without the key became a member");
  std::array<char, 256> answer{};
  const ssize_t heard = ::recv(ends[1], answer.data(), answer.size(), 0);
  fuzz::require(heard <= static_cast<ssize_t>(host::Greeting::kBytes + host::kRefusal.size()),
                "a stranger heard more than a greeting and a refusal");
  ::close(ends[1]);
}

void be_a_member(std::string_view bytes) {
  const auto request = host::request_from(bytes);
  fuzz::require(!request || host::to_bytes(*request) == bytes, "a request changed by being read");
  if (const auto answer = host::answer_from(bytes)) {
    fuzz::require(host::answer_from(host::to_bytes(*answer))->value == answer->value, "an answer changed");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string bytes(data, data + size);
  be_a_stranger(bytes);
  be_a_stranger(host::Greeting().bytes() + bytes);
  be_a_member(bytes);
  return 0;
}
