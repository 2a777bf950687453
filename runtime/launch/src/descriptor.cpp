#include <cohort/launch/descriptor.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <cohort/host/error.hpp>

namespace cohort::launch {
namespace {

[[noreturn]] void throw_no_descriptor() {
  throw UserError(std::string("cannot open a channel to a process (") + std::strerror(errno) +
                  "); raise the limit of open files");
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

Channel pipe_to_here() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_no_descriptor();
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Channel socket_to_there() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw_no_descriptor();
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EAGAIN) {  // somebody who has the same terminal made it so
      pollfd wait{descriptor, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (written < 0 && errno != EINTR) {
      return false;
    }
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace cohort::launch
