#include "operation.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace cohort::mpi {

namespace {

constexpr uint64_t kMostBytes = 1 << 30;  // of a message
constexpr std::chrono::milliseconds kLookInterval{10};
constexpr std::chrono::milliseconds kBusyTime{50};
constexpr std::chrono::microseconds kNap{50};

template <class Body>
void for_pieces(uint64_t nbytes, Body&& body) {
  for (uint64_t begin = 0; begin < nbytes; begin += kMostBytes) {
    body(begin, static_cast<int>(std::min(kMostBytes, nbytes - begin)));
  }
}

}  // namespace

Operation::Operation(Communicator& communicator, std::function<std::string()> text)
    : communicator_(communicator),
      text_(std::move(text)),
      requests_(communicator.requests_),
      parts_(communicator.parts_) {
  communicator.require_usable();
}

// Nothing is under way in the usual case. Otherwise messages are taken back as far as MPI can; what it can not may
// still write to memory of the caller while other communicators are used, which is why the network is given up as well.
Operation::~Operation() {
  Library& library = communicator_.network_->library();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL || parts_[i].peer < 0) continue;
    library.call([&] {
      if (parts_[i].is_receive) ::MPI_Cancel(&requests_[i]);
      return ::MPI_Request_free(&requests_[i]);
    });
  }
  requests_.clear();
  parts_.clear();
}

void Operation::send(int peer, const void* data, uint64_t nbytes, int tag) {
  for_pieces(nbytes, [&](uint64_t offset, int length) {
    begin([&](MPI_Request* request) {
      return ::MPI_Isend(static_cast<const std::byte*>(data) + offset, length, MPI_BYTE, peer, tag, communicator_.comm_,
                         request);
    });
    parts_.back() = {communicator_.members_[static_cast<std::size_t>(peer)], false};
  });
}

void Operation::receive(int peer, void* data, uint64_t nbytes, int tag) {
  for_pieces(nbytes, [&](uint64_t offset, int length) {
    begin([&](MPI_Request* request) {
      return ::MPI_Irecv(static_cast<std::byte*>(data) + offset, length, MPI_BYTE, peer, tag, communicator_.comm_,
                         request);
    });
    parts_.back() = {communicator_.members_[static_cast<std::size_t>(peer)], true};
  });
}

void Operation::wait(std::size_t first, std::size_t last) {
  const int spins = communicator_.network_->spins();
  for (int i = 0; i < spins; ++i) {
    if (is_done(first, last)) return;
  }
  wait_long(first, last);
}

bool Operation::is_done(std::size_t first, std::size_t last) {
  Library& library = communicator_.network_->library();
  int is_done = 1;
  while (first < last && requests_[first] == MPI_REQUEST_NULL) ++first;
  if (last - first == 1) {
    check(library.call([&] { return ::MPI_Test(&requests_[first], &is_done, MPI_STATUS_IGNORE); }));
  } else if (last > first) {
    std::vector<MPI_Status>& statuses = communicator_.statuses_;
    statuses.resize(last - first);
    const int code = library.call(
        [&] { return ::MPI_Testall(static_cast<int>(last - first), &requests_[first], &is_done, statuses.data()); });
    if (code == MPI_ERR_IN_STATUS) {
      for (const MPI_Status& status : statuses) {
        if (status.MPI_ERROR != MPI_ERR_PENDING) check(status.MPI_ERROR);
      }
    }
    check(code);
  }
  return is_done;
}

void Operation::wait_long(std::size_t first, std::size_t last) {
  Network& network = *communicator_.network_;
  if (!waits_since_) waits_since_ = Clock::now();
  const auto begin = Clock::now();
  auto next_look = begin + kLookInterval;
  while (!is_done(first, last)) {
    communicator_.require_usable();
    const auto now = Clock::now();
    if (now >= *waits_since_ + network.timeout()) network.fail_late(text(), missing(first, last));
    if (now >= next_look) {
      network.look_around(text());
      next_look = Clock::now() + kLookInterval;
    }
    if (now < begin + kBusyTime) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

void Operation::check(int code) {
  if (code != MPI_SUCCESS) communicator_.network_->fail_broken(text(), code);
}

// The ranks of the root whose messages have not ended; MPI does not tell which one a collective waits for.
std::vector<int> Operation::missing(std::size_t first, std::size_t last) {
  std::vector<int> ranks;
  for (std::size_t i = first; i < last; ++i) {
    if (is_done(i, i + 1) || parts_[i].peer < 0) continue;
    if (std::find(ranks.begin(), ranks.end(), parts_[i].peer) == ranks.end()) ranks.push_back(parts_[i].peer);
  }
  return ranks;
}

}  // namespace cohort::mpi
