#include "hub.hpp"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <cohort/sdk/half.hpp>
#include <cohort/sdk/reduce.hpp>

#include "settings.hpp"

namespace nccl_stand_in {
namespace {

namespace sdk = cohort::sdk;

int32_t cohort_dtype(int32_t dtype) {
  constexpr int32_t kTypes[] = {COHORT_INT8,    COHORT_UINT8,   COHORT_INT32,   0,
                                COHORT_INT64,   COHORT_UINT64,  COHORT_FLOAT16, COHORT_FLOAT32,
                                COHORT_FLOAT64, COHORT_BFLOAT16};
  return kTypes[dtype];
}

int32_t cohort_reduce(int32_t op) {
  constexpr int32_t kOps[] = {COHORT_REDUCE_SUM, COHORT_REDUCE_PRODUCT, COHORT_REDUCE_MAX, COHORT_REDUCE_MIN,
                              COHORT_REDUCE_SUM};
  return kOps[op];
}

// Multiplies by 1 / size, rounded to the type, as ncclAvg does before it adds.
template <class T>
void multiply_by_share(Bytes& bytes, size_t size) {
  using E = sdk::Element<T>;
  using A = typename E::Accumulator;
  auto* const elements = reinterpret_cast<T*>(bytes.data());
  const A share = E::load(E::store(A{1} / static_cast<A>(size)));
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) elements[i] = E::store(E::load(elements[i]) * share);
}

Bytes shared(Bytes bytes, int32_t dtype, size_t size) {
  if (dtype == ncclFloat16) multiply_by_share<sdk::Half>(bytes, size);
  if (dtype == ncclBfloat16) multiply_by_share<sdk::BFloat16>(bytes, size);
  if (dtype == ncclFloat32) multiply_by_share<float>(bytes, size);
  if (dtype == ncclFloat64) multiply_by_share<double>(bytes, size);
  return bytes;
}

bool has_hung_up(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

std::string Hub::open() {
  uint64_t random = 0;
  while (::getrandom(&random, sizeof random, 0) != sizeof random) continue;
  const std::string name = "nccl-stand-in-" + std::to_string(::getpid()) + "-" + std::to_string(random);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(name);
  if (fd < 0 || ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 64) != 0) {
    throw std::runtime_error("the stand-in for NCCL cannot listen");
  }
  std::thread([hub = std::make_shared<Hub>(), fd] { hub->listen(fd); }).detach();
  return name;
}

void Hub::listen(int fd) {
  size_t come = 0;
  do {
    const int rank_fd = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (rank_fd < 0) break;
    std::thread([hub = shared_from_this(), rank_fd] { hub->serve(rank_fd); }).detach();
    ++come;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return size_ > 0; });
  } while (come < size_);
  ::close(fd);
  const std::lock_guard lock(mutex_);
  is_full_ = true;
  changed_.notify_all();
}

// Returns the rank when all have come. Throws Closed where this one does not stay so long.
int Hub::welcome(int fd) {
  const auto hello = receive_value<Hello>(fd);
  std::unique_lock lock(mutex_);
  if (size_ == 0) size_ = static_cast<size_t>(hello.size);
  if (size_ != static_cast<size_t>(hello.size)) refusal_ = "ranks name different numbers of ranks";
  collectives_.resize(size_);
  for (const auto& [rank, device] : devices_) {
    if (device != hello.device || allows_ranks_on_one_device()) continue;
    refusal_ = "Duplicate GPU detected : rank " + std::to_string(hello.rank) + " and rank " + std::to_string(rank) +
               " both on CUDA device " + std::to_string(device);
  }
  devices_[hello.rank] = hello.device;
  changed_.notify_all();
  while (!changed_.wait_for(lock, std::chrono::milliseconds(5), [&] { return is_full_ && devices_.size() == size_; })) {
    if (has_hung_up(fd)) throw Closed("gone before all had come");
  }
  send_value(fd, refusal_.empty() ? ncclSuccess : ncclInvalidUsage);
  send_text(fd, refusal_);
  return hello.rank;
}

void Hub::serve(int fd) {
  int rank = -1;
  try {
    rank = welcome(fd);
    while (true) serve_rank(fd, rank);
  } catch (const Closed&) {
    const std::lock_guard lock(mutex_);
    if (size_ == 0) size_ = 1;  // nobody else is waited for
    if (rank >= 0) gone_.insert(rank);
    match();
    changed_.notify_all();
  }
  ::close(fd);
}

void Hub::serve_rank(int fd, int rank) {
  Request request{.rank = rank, .operations = std::vector<Operation>(receive_value<uint64_t>(fd))};
  const auto size = static_cast<int>(size_);
  for (Operation& op : request.operations) {
    op = receive_value<Operation>(fd);
    Bytes& input = request.inputs.emplace_back(input_bytes(op, rank, size));
    receive_bytes(fd, input.data(), input.size());
    request.outputs.emplace_back(output_bytes(op, rank, size));
  }
  {
    std::unique_lock lock(mutex_);
    add(request);
    match();
    changed_.notify_all();
    while (!changed_.wait_for(lock, std::chrono::milliseconds(5), [&] { return request.is_over(); })) {
      if (!has_hung_up(fd)) continue;
      remove(request);
      throw Closed("gone");
    }
    remove(request);
  }
  send_value(fd, request.result);
  send_text(fd, request.text);
  if (request.result != ncclSuccess) return;
  for (const Bytes& output : request.outputs) send_bytes(fd, output.data(), output.size());
}

void Hub::add(Request& request) {
  request.num_open = request.operations.size();
  for (size_t i = 0; i < request.operations.size(); ++i) {
    const auto [kind, dtype, reduce, peer, count] = request.operations[i];
    if (kind == kSend) {
      sends_[{request.rank, peer}].push_back({&request, i});
    } else if (kind == kReceive) {
      receives_[{peer, request.rank}].push_back({&request, i});
    } else {
      collectives_[static_cast<size_t>(request.rank)].push_back({&request, i});
    }
  }
}

void Hub::remove(const Request& request) {
  const auto is_its = [&](const Entry& entry) { return entry.request == &request; };
  for (auto& queue : collectives_) std::erase_if(queue, is_its);
  for (auto& [pair, queue] : sends_) std::erase_if(queue, is_its);
  for (auto& [pair, queue] : receives_) std::erase_if(queue, is_its);
}

void Hub::end(const Entry& entry, ncclResult_t result, const std::string& text) {
  --entry.request->num_open;
  if (result == ncclSuccess || entry.request->result != ncclSuccess) return;
  entry.request->result = result;
  entry.request->text = text;
}

std::string Hub::mismatch(const Entries& entries) {
  const auto text_of = [](const Entry& entry) {
    const Operation& op = entry.operation();
    return "rank " + std::to_string(entry.request->rank) + " " + kNames[op.kind] + " of " + std::to_string(op.count) +
           " elements of type " + std::to_string(op.dtype) + ", operation " + std::to_string(op.reduce) + ", root " +
           std::to_string(op.root);
  };
  const Operation& first = entries[0].operation();
  for (const Entry& entry : entries) {
    const Operation& op = entry.operation();
    const bool is_equal = op.kind == first.kind && op.dtype == first.dtype && op.count == first.count &&
                          (op.kind == kSplit || (op.reduce == first.reduce && op.root == first.root));
    if (!is_equal) return "ranks call different operations: " + text_of(entries[0]) + ", " + text_of(entry);
  }
  return "";
}

void Hub::match() {
  const auto has_none = [](const auto& queue) { return queue.empty(); };
  while (!collectives_.empty() && std::ranges::none_of(collectives_, has_none)) {
    Entries entries;
    for (auto& queue : collectives_) {
      entries.push_back(queue.front());
      queue.pop_front();
    }
    const std::string problem = mismatch(entries);
    if (problem.empty()) run(entries);
    for (const Entry& entry : entries) end(entry, problem.empty() ? ncclSuccess : ncclInvalidUsage, problem);
  }
  match_messages();
  if (!gone_.empty() && number_in("NCCL_STANDIN_SILENT", 0) == 0) fail_what_waits_for_the_gone();
  changed_.notify_all();
}

void Hub::match_messages() {
  for (auto& [pair, sends] : sends_) {
    auto& receives = receives_[pair];
    while (!sends.empty() && !receives.empty()) {
      const Entry send = sends.front(), receive = receives.front();
      sends.pop_front();
      receives.pop_front();
      const bool fits = send.input().size() == receive.output().size();
      if (fits) receive.output() = send.input();
      for (const Entry& entry : {send, receive}) {
        end(entry, fits ? ncclSuccess : ncclInvalidUsage, fits ? "" : "a message has another size than its receiver");
      }
    }
  }
}

void Hub::fail_what_waits_for_the_gone() {
  const std::string text = "the connection to rank " + std::to_string(*gone_.begin()) + " is closed";
  for (auto& queue : collectives_) {
    for (const Entry& entry : queue) end(entry, ncclRemoteError, text);
    queue.clear();
  }
  for (auto* messages : {&sends_, &receives_}) {
    for (auto& [pair, queue] : *messages) {
      if (!gone_.contains(pair.first) && !gone_.contains(pair.second)) continue;
      for (const Entry& entry : queue) end(entry, ncclRemoteError, text);
      queue.clear();
    }
  }
}

void Hub::run(const Entries& entries) {
  const Operation& op = entries[0].operation();
  if (op.kind == kSplit) return split(entries);
  if (op.kind == kBroadcast) {
    for (const Entry& entry : entries) entry.output() = entries[static_cast<size_t>(op.root)].input();
  } else if (op.kind == kAllGather) {
    Bytes whole;
    for (const Entry& entry : entries) whole.insert(whole.end(), entry.input().begin(), entry.input().end());
    for (const Entry& entry : entries) entry.output() = whole;
  } else {
    reduce(entries);
  }
}

// As a ring does: the elements are cut into as many pieces as there are ranks, each is summed from another rank on, and
// every hop rounds to the type.
void Hub::reduce(const Entries& entries) const {
  const Operation& op = entries[0].operation();
  const uint64_t element = size_of_type(op.dtype), count = entries[0].input().size() / element;
  std::vector<Bytes> inputs;
  for (const Entry& entry : entries) {
    inputs.push_back(op.reduce == ncclAvg ? shared(entry.input(), op.dtype, size_) : entry.input());
  }
  Bytes sum(count * element);
  for (size_t piece = 0; piece < size_; ++piece) {
    const uint64_t begin = count * piece / size_, length = count * (piece + 1) / size_ - begin;
    const auto at = [&](size_t rank) { return inputs[rank % size_].data() + begin * element; };
    std::byte* const out = sum.data() + begin * element;
    if (length > 0) std::memcpy(out, at(piece + 1), length * element);
    for (size_t hop = 2; hop <= size_; ++hop) {
      const std::array<const std::byte*, 2> both{out, at(piece + hop)};
      sdk::reduce_elements(cohort_dtype(op.dtype), cohort_reduce(op.reduce), {both.data(), 2}, out, length);
    }
  }
  for (const Entry& entry : entries) {
    Bytes& output = entry.output();
    const size_t first = op.kind == kReduceScatter ? output.size() * static_cast<size_t>(entry.request->rank) : 0;
    if (!output.empty()) std::memcpy(output.data(), sum.data() + first, output.size());
  }
}

void Hub::split(const Entries& entries) {
  std::map<int32_t, Entries> colors;
  for (const Entry& entry : entries) colors[entry.operation().root].push_back(entry);
  for (auto& [color, members] : colors) {
    if (color < 0) continue;
    std::ranges::stable_sort(members, {}, [](const Entry& entry) { return entry.operation().reduce; });
    const std::string address = open();
    for (size_t rank = 0; rank < members.size(); ++rank) {
      Part part{.address = {}, .rank = static_cast<int32_t>(rank), .size = static_cast<int32_t>(members.size())};
      std::memcpy(part.address, address.data(), address.size());
      std::memcpy(members[rank].output().data(), &part, sizeof part);
    }
  }
}

}  // namespace nccl_stand_in
