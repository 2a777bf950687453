#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "operations.hpp"

namespace cohort::shm {

namespace {

/// Precedes each message in a ring.
struct MessageHeader {
  uint64_t nbytes;
  uint64_t operation;
  Place place;  // region != 0: the bytes do not follow, the receiver copies them from the sender's shared memory
};

constexpr uint64_t kSharedFrom = 4 << 10;   // smaller messages go through the ring in any case
constexpr uint64_t kPieceBytes = 64 << 10;  // what the receiver may begin with while the sender goes on

/// A ring as one end sees it.
class RingView {
 public:
  RingView(const ControlLayout& control, int from, int to)
      : ring_(&control.ring(from, to)), data_(control.ring_data(from, to)) {}

  uint64_t head() const { return ring_->head.load(std::memory_order_seq_cst); }
  uint64_t tail() const { return ring_->tail.load(std::memory_order_seq_cst); }
  void put_head(uint64_t head) const { ring_->head.store(head, std::memory_order_seq_cst); }
  void put_tail(uint64_t tail) const { ring_->tail.store(tail, std::memory_order_seq_cst); }

  void write(uint64_t position, const void* from, uint64_t nbytes, uint64_t capacity) const {
    const uint64_t offset = position % capacity;
    const uint64_t first = std::min(nbytes, capacity - offset);
    std::memcpy(data_ + offset, from, first);
    std::memcpy(data_, static_cast<const std::byte*>(from) + first, nbytes - first);
  }
  void read(uint64_t position, void* to, uint64_t nbytes, uint64_t capacity) const {
    const uint64_t offset = position % capacity;
    const uint64_t first = std::min(nbytes, capacity - offset);
    std::memcpy(to, data_ + offset, first);
    std::memcpy(static_cast<std::byte*>(to) + first, data_, nbytes - first);
  }

 private:
  Ring* ring_;
  std::byte* data_;
};

/// The messages to or from one peer, one after another.
struct Line {
  std::size_t next = 0;                     // index in the list, of the message in flight
  const cohort_message* message = nullptr;  // null: all are done
  uint64_t done = 0;                        // bytes of it
  bool is_open = false;                     // its header has been put or taken
  MessageHeader header{};
};

class Exchange {
 public:
  Exchange(const Group& group, sdk::Span<const cohort_message> messages)
      : channel_(group.channel),
        memory_(group.memory),
        messages_(messages),
        capacity_(ring_bytes(channel_.size())),
        sends_(static_cast<std::size_t>(channel_.size())),
        receives_(static_cast<std::size_t>(channel_.size())) {}

  void run() {
    copy_own();
    for (int peer = 0; peer < channel_.size(); ++peer) {
      if (peer == channel_.rank()) continue;
      find_message(sends_[at(peer)], peer, true, 0);
      find_message(receives_[at(peer)], peer, false, 0);
    }
    while (move_all()) {
      channel_.wait([this] { return can_move_any(); }, [this](int peer) { return is_missing(peer); });
    }
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  /// Messages to oneself match in list order too.
  void copy_own() {
    std::size_t receive = 0;
    for (const cohort_message& send : messages_) {
      if (send.peer != channel_.rank() || !send.is_send) continue;
      while (messages_[receive].peer != channel_.rank() || messages_[receive].is_send) ++receive;
      const cohort_message& to = messages_[receive++];
      check_sizes(channel_.rank(), send.nbytes, to.nbytes);
      if (send.nbytes != 0 && to.data != send.data) std::memmove(to.data, send.data, send.nbytes);
    }
  }

  void find_message(Line& line, int peer, bool is_send, std::size_t from) {
    line = Line{};
    for (std::size_t i = from; i < messages_.size(); ++i) {
      if (messages_[i].peer != peer || (messages_[i].is_send != 0) != is_send) continue;
      line.next = i;
      line.message = &messages_[i];
      return;
    }
  }

  /// Moves what can be moved; true while something is left.
  bool move_all() {
    bool has_moved = true;
    bool is_left = true;
    while (has_moved && is_left) {
      has_moved = is_left = false;
      for (int peer = 0; peer < channel_.size(); ++peer) {
        while (sends_[at(peer)].message && can_push(peer)) push(peer), has_moved = true;
        while (receives_[at(peer)].message && can_pull(peer)) pull(peer), has_moved = true;
        is_left = is_left || is_waiting_for(peer);
      }
    }
    return is_left;
  }
  bool can_move(int peer) const {
    return (sends_[at(peer)].message && can_push(peer)) || (receives_[at(peer)].message && can_pull(peer));
  }
  bool can_move_any() const {
    for (int peer = 0; peer < channel_.size(); ++peer) {
      if (can_move(peer)) return true;
    }
    return false;
  }
  bool is_waiting_for(int peer) const { return sends_[at(peer)].message || receives_[at(peer)].message; }
  /// Not a peer that has done its part, and may be gone, while this rank has yet to do its own.
  bool is_missing(int peer) const { return is_waiting_for(peer) && !can_move(peer); }

  RingView outgoing(int peer) const { return {channel_.control(), channel_.rank(), peer}; }
  RingView incoming(int peer) const { return {channel_.control(), peer, channel_.rank()}; }

  bool can_push(int peer) const {
    const Line& line = sends_[at(peer)];
    const uint64_t used = outgoing(peer).head() - outgoing(peer).tail();
    if (!line.is_open) return capacity_ - used >= sizeof(MessageHeader);
    // The receiver takes the header of a message in shared memory out after it has copied the message.
    return line.header.place.region ? used == 0 : used < capacity_;
  }

  void push(int peer) {
    Line& line = sends_[at(peer)];
    const RingView ring = outgoing(peer);
    const uint64_t head = ring.head();
    if (!line.is_open) {
      const uint64_t nbytes = line.message->nbytes;
      const Place place = nbytes < kSharedFrom ? Place{0, 0} : memory_.find(line.message->data, nbytes);
      line.header = {nbytes, channel_.operation_number(), place};
      line.is_open = true;
      ring.write(head, &line.header, sizeof line.header, capacity_);
      ring.put_head(head + sizeof line.header);
      channel_.notify(peer);
      if (place.region) return;
    } else if (!line.header.place.region) {
      const uint64_t room = capacity_ - (head - ring.tail());
      const uint64_t piece = std::min({line.message->nbytes - line.done, room, kPieceBytes});
      ring.write(head, static_cast<const std::byte*>(line.message->data) + line.done, piece, capacity_);
      ring.put_head(head + piece);
      channel_.notify(peer);
      line.done += piece;
    }
    if (line.header.place.region || line.done == line.message->nbytes) find_message(line, peer, true, line.next + 1);
  }

  bool can_pull(int peer) const {
    const uint64_t available = incoming(peer).head() - incoming(peer).tail();
    return available >= (receives_[at(peer)].is_open ? 1 : sizeof(MessageHeader));
  }

  void pull(int peer) {
    Line& line = receives_[at(peer)];
    const RingView ring = incoming(peer);
    uint64_t tail = ring.tail();
    if (!line.is_open) {
      ring.read(tail, &line.header, sizeof line.header, capacity_);
      check_header(peer, line.header, line.message->nbytes);
      line.is_open = true;
      tail += sizeof line.header;
      if (line.header.place.region) {
        std::memcpy(line.message->data, memory_.resolve(peer, line.header.place, line.header.nbytes),
                    line.header.nbytes);
        line.done = line.header.nbytes;
      }
    } else {
      const uint64_t piece = std::min({line.message->nbytes - line.done, ring.head() - tail, kPieceBytes});
      ring.read(tail, static_cast<std::byte*>(line.message->data) + line.done, piece, capacity_);
      line.done += piece;
      tail += piece;
    }
    ring.put_tail(tail);
    channel_.notify(peer);
    if (line.done == line.message->nbytes) find_message(line, peer, false, line.next + 1);
  }

  void check_header(int peer, const MessageHeader& header, uint64_t expected) const {
    if (header.operation != channel_.operation_number()) {
      throw sdk::failed_precondition("rank " + std::to_string(peer) + " sent in its operation #" +
                                     std::to_string(header.operation) + " what rank " +
                                     std::to_string(channel_.rank()) + " receives in " + channel_.operation_name());
    }
    check_sizes(peer, header.nbytes, expected);
  }
  void check_sizes(int sender, uint64_t sent, uint64_t expected) const {
    if (sent == expected) return;
    throw sdk::failed_precondition("rank " + std::to_string(sender) + " sent " + std::to_string(sent) +
                                   " bytes to rank " + std::to_string(channel_.rank()) + ", which expected " +
                                   std::to_string(expected) + ", in " + channel_.operation_name());
  }

  Channel& channel_;
  const GroupMemory& memory_;
  sdk::Span<const cohort_message> messages_;
  uint64_t capacity_;
  std::vector<Line> sends_;     // by peer
  std::vector<Line> receives_;  // by peer
};

}  // namespace

void exchange(const Group& group, sdk::Span<const cohort_message> messages) {
  Exchange(group, messages).run();
}

}  // namespace cohort::shm
