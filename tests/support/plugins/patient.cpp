// A collective as a stranger writes it: messages between threads, and a wait that ends at the deadline with a plain
// sentence, which does not say for whom it waited. It cannot be aborted.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "thread_wire.hpp"

namespace {

namespace sdk = cohort::sdk;
using cohort::test::ThreadHub;
using cohort::test::ThreadWireComm;

class PatientComm : public sdk::Communicator<PatientComm> {
 public:
  PatientComm(std::shared_ptr<ThreadHub> hub, std::vector<int> members, int rank, int64_t timeout_ns,
              std::shared_ptr<int> numbers)
      : hub_(std::move(hub)),
        members_(std::move(members)),
        rank_(rank),
        timeout_ns_(timeout_ns),
        numbers_(std::move(numbers)),
        number_((*numbers_)++) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream) {
    std::vector<cohort_message> sent;
    for (cohort_message message : messages) {
      message.peer = place_of(message.peer);
      sent.push_back(message);
    }
    try {
      ThreadWireComm(hub_, place_of(rank_), size(), timeout_ns_).exchange({sent.data(), sent.size()}, stream);
    } catch (const sdk::Error& error) {
      if (error.status() == COHORT_DEADLINE_EXCEEDED) throw sdk::Error(error.status(), "it took too long");
      throw;
    }
  }

  std::unique_ptr<PatientComm> split(int32_t color, int32_t key) {
    struct Wish {
      int32_t color, key;
    };
    std::vector<Wish> wishes(members_.size());
    Wish own{color, key};
    std::vector<cohort_message> messages;
    for (int peer = 0; peer < size(); ++peer) {
      messages.push_back({&own, sizeof own, peer, 1});
      messages.push_back({&wishes[static_cast<std::size_t>(peer)], sizeof own, peer, 0});
    }
    exchange({messages.data(), messages.size()}, {nullptr, COHORT_DEVICE_CPU, 0});
    std::vector<int> ranks;
    for (int peer = 0; peer < size(); ++peer) {
      if (color >= 0 && wishes[static_cast<std::size_t>(peer)].color == color) ranks.push_back(peer);
    }
    const auto key_of = [&](int peer) { return wishes[static_cast<std::size_t>(peer)].key; };
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return key_of(a) < key_of(b); });
    const auto rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    for (int& one : ranks) one = members_[static_cast<std::size_t>(one)];
    auto part = std::make_unique<PatientComm>(hub_, std::move(ranks), rank, timeout_ns_, numbers_);
    return color < 0 ? nullptr : std::move(part);
  }

 private:
  static constexpr int kMostRanks = 64;

  // Where messages for a rank of this communicator lie in the hub.
  int place_of(int rank) const { return number_ * kMostRanks + members_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<ThreadHub> hub_;
  std::vector<int> members_;  // ranks of the root
  int rank_;
  int64_t timeout_ns_;
  std::shared_ptr<int> numbers_;  // of communicators: the same on all ranks, which make them in one order
  int number_;
};

struct Patient : sdk::Collective<Patient, PatientComm> {
  std::unique_ptr<PatientComm> connect(const cohort_connect_args& args) {
    std::vector<int> members(static_cast<std::size_t>(args.size));
    std::iota(members.begin(), members.end(), 0);
    return std::make_unique<PatientComm>(cohort::test::meet_in_hub(args), std::move(members), args.rank,
                                         args.timeout_ns, std::make_shared<int>(0));
  }
};

constexpr cohort_component kPatient = sdk::collective<Patient>("patient", "ranks that are threads");

}  // namespace

COHORT_SDK_PLUGIN("org.example.patient", "1.0.0", "a stranger", "Apache-2.0", kPatient)
