#include "mesh.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <ATen/ops/from_blob.h>
#define USE_C10D_GLOO  // without it the header is empty
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "doors.hpp"

namespace cohort::gloo {

constexpr uint32_t kNumbers = 1U << 17;  // drawing one costs some 20 ns

/// Room for a gloo::transport::tcp::Address, which is a table of functions, a socket address, a number and a mutex.
/// Like that it is not copied bit by bit, so that functions return both in the same way. It owns nothing.
class Address {
 public:
  Address() = default;
  Address(const Address&) {}
  Address& operator=(const Address&) = delete;
  ~Address() {}

 private:
  [[maybe_unused]] alignas(std::max_align_t) std::array<std::byte, 1024> room_;
};

/// gloo::transport::tcp::Device::nextAddress(), of a class that the headers which come with LibTorch do not have.
Address next_address(const void* tcp_device) __asm__("_ZN4gloo9transport3tcp6Device11nextAddressEv")
    __attribute__((weak));

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kForever = std::chrono::hours(24 * 365);  // whoever waits is stopped at its deadline

/// "[pair.cc:123] Connection closed by peer" without the place.
std::string essence(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  const std::size_t place = text.find("] ");
  return text.compare(0, 1, "[") == 0 && place != std::string::npos ? text.substr(place + 2) : text;
}

template <class Call>
auto guarded(Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw LinkBroken(essence(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw LinkBroken(essence(error.what()));
  }
}

/// A cohort_store as c10d sees stores; used while connecting only.
class StoreView final : public c10d::Store {
 public:
  StoreView(cohort_store* store, std::string prefix, milliseconds timeout)
      : c10d::Store(timeout), store_(store), prefix_(std::move(prefix)) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<StoreView>(store_, prefix_, timeout_); }
  void set(const std::string& name, const std::vector<uint8_t>& value) override {
    const std::string key = prefix_ + name;
    require(store_->vt->set(store_, key.c_str(), value.data(), value.size()), key);
  }
  std::vector<uint8_t> get(const std::string& name) override {
    const std::string key = prefix_ + name;
    std::vector<uint8_t> value(4096);
    uint64_t nbytes = 0;
    cohort_status status = read(key, value, nbytes);
    if (status == COHORT_RESOURCE_EXHAUSTED) {
      value.resize(nbytes);
      status = read(key, value, nbytes);
    }
    require(status, key);
    value.resize(nbytes);
    return value;
  }
  int64_t add(const std::string& name, int64_t amount) override {
    const std::string key = prefix_ + name;
    int64_t sum = 0;
    require(store_->vt->add(store_, key.c_str(), amount, &sum), key);
    return sum;
  }
  bool deleteKey(const std::string& name) override {
    const std::string key = prefix_ + name;
    require(store_->vt->remove(store_, key.c_str()), key);
    return true;
  }
  bool check(const std::vector<std::string>& keys) override {
    return std::all_of(keys.begin(), keys.end(), [this](const std::string& name) {
      const std::string key = prefix_ + name;
      uint8_t first = 0;
      uint64_t nbytes = 0;
      return store_->vt->try_get(store_, key.c_str(), &first, 1, &nbytes) != COHORT_NOT_FOUND;
    });
  }
  int64_t getNumKeys() override {
    uint64_t keys = 0;
    require(store_->vt->count(store_, &keys), "(count)");
    return static_cast<int64_t>(keys);
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    std::vector<std::string> whole;
    for (const std::string& key : keys) whole.push_back(prefix_ + key);
    std::vector<const char*> names;
    for (const std::string& key : whole) names.push_back(key.c_str());
    const std::chrono::nanoseconds limit = std::min(timeout, timeout_);
    require(store_->vt->wait(store_, names.data(), names.size(), limit.count()), keys.empty() ? "" : keys.front());
  }

 private:
  cohort_store* store_;
  std::string prefix_;

  cohort_status read(const std::string& key, std::vector<uint8_t>& value, uint64_t& nbytes) {
    return store_->vt->get(store_, key.c_str(), std::chrono::nanoseconds(timeout_).count(), value.data(), value.size(),
                           &nbytes);
  }
  static void require(cohort_status status, const std::string& key) {
    if (status == COHORT_OK) return;
    throw std::runtime_error("the job's store has no '" + key + "' (status " + std::to_string(status) + ")");
  }
};

// A process group takes the tag modulo its devices as the number of the connection.
int wire_tag(int32_t tag, int connection) {
  return tag * Mesh::kConnections + connection;
}

std::vector<at::Tensor> tensors_over(void* data, uint64_t nbytes) {
  return {at::from_blob(data, {static_cast<int64_t>(nbytes)}, at::TensorOptions(at::kByte))};
}

std::shared_ptr<::gloo::transport::Device> device_at(const std::string& address) {
  try {
    return guarded([&] { return c10d::ProcessGroupGloo::createDeviceForHostname(address); });
  } catch (const LinkBroken& failure) {
    throw NoDevice(failure.what());
  }
}

/// Lets the numbers of a TCP device begin at random, below 131,072. Does nothing for other devices, and if LibTorch's
/// Gloo has no such function any more.
///
/// Gloo knows the connections that it waits for by these numbers. They count from 0 for each device, and whoever
/// connects first and says the number of a rank is taken for it: a stranger who knows Gloo could end a rank so, because
/// Gloo throws in a thread of its own at what it does not understand. Ranks read each other's numbers from the store,
/// so these may begin anywhere.
void begin_anywhere(const ::gloo::transport::Device& device) {
  const bool is_tcp = std::string_view(typeid(device).name()) == "N4gloo9transport3tcp6DeviceE";
  if (!is_tcp || !next_address) return;
  for (uint32_t left = std::random_device()() % kNumbers; left > 0; --left) next_address(&device);
}

}  // namespace

Transfer::Transfer(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
Transfer::~Transfer() = default;
Transfer::Transfer(Transfer&&) noexcept = default;
Transfer& Transfer::operator=(Transfer&&) noexcept = default;

bool Transfer::wait() {
  return guarded([&] { return work_->wait(kForever); });
}

void Transfer::stop() {
  work_->abort();
}

void Transfer::wait_until(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  guarded([&] { return work_->wait(std::max(left, milliseconds(1))); });
}

Mesh::Mesh(cohort_store* store, const std::string& prefix, int rank, int size, const std::string& address,
           milliseconds limit)
    : rank_(rank) {
  std::shared_ptr<::gloo::transport::Device> device;
  const auto doors = sockets_opened_by([&] { device = device_at(address); });
  begin_anywhere(*device);
  guarded([&] {
    auto options = c10d::ProcessGroupGloo::Options::create(limit);
    options->threads = 1;  // they serve Gloo's own collectives, which are not used
    options->devices.assign(kConnections, device);
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<StoreView>(store, prefix, limit), rank,
                                                         size, options);
  });
  shut(doors);
}

Mesh::~Mesh() = default;

void Mesh::close() {
  group_.reset();
}

Transfer Mesh::send_on(int connection, int peer, const void* data, uint64_t nbytes, int32_t tag) {
  return guarded([&] {
    auto tensors = tensors_over(const_cast<void*>(data), nbytes);
    const std::lock_guard lock(mutex_);
    return Transfer(group_->send(tensors, peer, wire_tag(tag, connection)));
  });
}

Transfer Mesh::receive_on(int connection, int peer, void* data, uint64_t nbytes, int32_t tag) {
  return guarded([&] {
    auto tensors = tensors_over(data, nbytes);
    const std::lock_guard lock(mutex_);
    return Transfer(group_->recv(tensors, peer, wire_tag(tag, connection)));
  });
}

}  // namespace cohort::gloo
