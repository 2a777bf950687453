// A file descriptor that is closed with its owner.
#pragma once

#include <string_view>
#include <utility>

namespace cohort::launch {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  int number() const { return number_; }  ///< -1: none
  bool is_open() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

/// The two ends of a channel, closed on exec.
struct Channel {
  Descriptor here, there;
};

/// A pipe, `here` to read; throws UserError.
Channel pipe_to_here();
/// A pair of sockets; throws UserError.
Channel socket_to_there();

/// Writes everything, however long it takes; false where nobody reads.
bool write_all(int descriptor, std::string_view bytes);

}  // namespace cohort::launch
