#include "output_pump.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace cohort::nodes {
namespace {

constexpr std::size_t kChunkBytes = 65536;
constexpr int kHalfALineWaits_ms = 200;

}  // namespace

OutputPump::OutputPump(int first_rank, int ranks, Deliver deliver)
    : first_rank_(first_rank),
      deliver_(std::move(deliver)),
      nothing_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      stop_(launch::pipe_to_here()) {
  for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
    for (const MessageKind kind : {MessageKind::kOutput, MessageKind::kErrors}) {
      streams_.push_back({kind, rank, launch::pipe_to_here()});
    }
  }
  streams_.push_back({MessageKind::kErrors, -1, launch::pipe_to_here()});
  ::dup2(streams_.back().pipe.there.number(), STDERR_FILENO);
  streams_.back().pipe.there.close();
  thread_ = std::thread([this] { run(); });
}

launch::StandardStreams OutputPump::streams_of(int rank) const {
  const std::size_t index = index_of(rank);
  return {nothing_.number(), streams_[index].pipe.there.number(), streams_[index + 1].pipe.there.number()};
}

void OutputPump::release(int rank) {
  const std::size_t index = index_of(rank);
  for (const std::size_t one : {index, index + 1}) streams_[one].pipe.there.close();
}

void OutputPump::finish() {
  if (!thread_.joinable()) return;
  stop_.there.close();
  thread_.join();
}

void OutputPump::run() {
  std::vector<pollfd> waits;
  bool is_stopping = false, has_read = false;
  do {
    waits.assign(1, {is_stopping ? -1 : stop_.here.number(), POLLIN, 0});
    for (const Stream& stream : streams_) waits.push_back({stream.pipe.here.number(), POLLIN, 0});
    const int ready = ::poll(waits.data(), waits.size(), is_stopping ? 0 : kHalfALineWaits_ms);
    is_stopping = is_stopping || waits[0].revents != 0;
    has_read = false;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (ready > 0 && waits[i + 1].revents != 0) has_read = read_some(streams_[i]) || has_read;
      if (ready == 0) hand_on(streams_[i], true);
    }
  } while (!is_stopping || has_read);
  for (Stream& stream : streams_) hand_on(stream, true);
}

bool OutputPump::read_some(Stream& stream) {
  std::array<char, kChunkBytes> bytes;
  const ssize_t got = ::read(stream.pipe.here.number(), bytes.data(), bytes.size());
  if (got < 0 && errno == EINTR) return true;
  if (got > 0) stream.held.append(bytes.data(), static_cast<std::size_t>(got));
  if (got <= 0) stream.pipe.here.close();
  const bool is_too_long = stream.held.size() >= kChunkBytes && stream.held.find('\n') == std::string::npos;
  hand_on(stream, got <= 0 || is_too_long);
  return got > 0;
}

void OutputPump::hand_on(Stream& stream, bool also_half_a_line) {
  const std::size_t lines = also_half_a_line ? stream.held.size() : stream.held.rfind('\n') + 1;
  if (lines == 0) return;
  deliver_(stream.kind, stream.rank, std::string_view(stream.held).substr(0, lines));
  stream.held.erase(0, lines);
}

}  // namespace cohort::nodes
