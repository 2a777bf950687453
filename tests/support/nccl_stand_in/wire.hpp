// What ranks and the hub of the stand-in for NCCL say to each other, over sockets of one machine.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "nccl_api.h"

namespace nccl_stand_in {

using Bytes = std::vector<std::byte>;

enum Kind : int32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kSend,
  kReceive,
  kSplit  // root: the color, reduce: the key
};
inline constexpr const char* kNames[] = {"ncclAllReduce",     "ncclReduce", "ncclBroadcast", "ncclAllGather",
                                         "ncclReduceScatter", "ncclSend",   "ncclRecv",      "ncclCommSplit"};

/// An operation without its data.
struct Operation {
  Kind kind;
  int32_t dtype;
  int32_t reduce;
  int32_t root;  // or the peer
  uint64_t count;
};

struct Hello {
  int32_t rank;
  int32_t size;
  int32_t device;
};

/// The part that a split gives to a rank.
struct Part {
  char address[64];
  int32_t rank;
  int32_t size;
};

inline uint64_t size_of_type(int32_t dtype) {
  constexpr uint64_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[dtype];
}

/// Bytes that a rank gives and gets.
inline uint64_t input_bytes(const Operation& op, int rank, int size) {
  const uint64_t nbytes = op.count * size_of_type(op.dtype);
  if (op.kind == kReceive || op.kind == kSplit) return 0;
  if (op.kind == kBroadcast) return op.root == rank ? nbytes : 0;
  return op.kind == kReduceScatter ? nbytes * static_cast<uint64_t>(size) : nbytes;
}
inline uint64_t output_bytes(const Operation& op, int rank, int size) {
  const uint64_t nbytes = op.count * size_of_type(op.dtype);
  if (op.kind == kSend) return 0;
  if (op.kind == kSplit) return sizeof(Part);
  if (op.kind == kReduce) return op.root == rank ? nbytes : 0;
  return op.kind == kAllGather ? nbytes * static_cast<uint64_t>(size) : nbytes;
}

/// The other side has closed its socket.
struct Closed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void send_bytes(int fd, const void* data, uint64_t nbytes) {
  const auto* next = static_cast<const char*>(data);
  while (nbytes > 0) {
    const ssize_t sent = ::send(fd, next, nbytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) throw Closed("the other side has closed its socket");
    next += sent;
    nbytes -= static_cast<uint64_t>(sent);
  }
}

inline void receive_bytes(int fd, void* data, uint64_t nbytes) {
  auto* next = static_cast<char*>(data);
  while (nbytes > 0) {
    const ssize_t got = ::recv(fd, next, nbytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw Closed("the other side has closed its socket");
    next += got;
    nbytes -= static_cast<uint64_t>(got);
  }
}

template <class T>
void send_value(int fd, const T& value) {
  send_bytes(fd, &value, sizeof value);
}
template <class T>
T receive_value(int fd) {
  T value{};
  receive_bytes(fd, &value, sizeof value);
  return value;
}

inline void send_text(int fd, const std::string& text) {
  send_value(fd, uint64_t{text.size()});
  send_bytes(fd, text.data(), text.size());
}
inline std::string receive_text(int fd) {
  std::string text(receive_value<uint64_t>(fd), '\0');
  receive_bytes(fd, text.data(), text.size());
  return text;
}

/// Returns an address that no file has and that is gone with the socket.
inline sockaddr_un address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return address;
}

}  // namespace nccl_stand_in
