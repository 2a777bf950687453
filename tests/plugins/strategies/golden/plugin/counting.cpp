// A collective for ranks that are threads of one process, which counts what each of them asks for. It has every slot,
// so that nothing is composed; sums are taken in rank order.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <cohort/sdk/collective.hpp>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/reduce.hpp>

#include "counts.hpp"

namespace {

namespace sdk = cohort::sdk;
using cohort::golden::CountedJob;
using cohort::golden::Counts;
using cohort::golden::ThreadGroup;
using Bytes = std::vector<std::byte>;

struct Seat {
  int rank, size;
  int64_t timeout_ns;
  bool shares_memory;
};

// Where each rank's piece begins, and the end, in bytes.
std::vector<uint64_t> offsets_of(const cohort_op_args& args, const uint64_t* counts, int size) {
  std::vector<uint64_t> offsets{0};
  for (int r = 0; r < size; ++r)
    offsets.push_back(offsets.back() + (counts ? counts[r] : args.count) * sdk::size_of(args.dtype));
  return offsets;
}

uint64_t bytes_of(const cohort_op_args& args) {
  return args.count * sdk::size_of(args.dtype);
}

class CountingComm : public sdk::Communicator<CountingComm> {
 public:
  CountingComm(std::shared_ptr<ThreadGroup> group, Counts& counts, Seat seat)
      : group_(std::move(group)), counts_(counts), seat_(seat) {}

  int rank() const { return seat_.rank; }
  int size() const { return seat_.size; }
  bool shares_memory() const { return seat_.shares_memory; }
  void abort() { group_->abort(); }

  void* alloc(uint64_t nbytes) {
    counts_.add("alloc", nbytes);
    constexpr uint64_t kAlignment = 64;
    const uint64_t rounded = std::max((nbytes + kAlignment - 1) / kAlignment, uint64_t{1}) * kAlignment;
    void* const memory = std::aligned_alloc(kAlignment, rounded);
    if (!memory) throw std::bad_alloc();
    std::memset(memory, 0, rounded);
    return memory;
  }
  void release(void* memory) {
    counts_.add("release");
    std::free(memory);
  }

  std::unique_ptr<CountingComm> split(int32_t color, int32_t key) {
    counts_.add("split");
    struct Wish {
      int32_t color, key;
      std::shared_ptr<ThreadGroup> group;
      Seat seat;
    } wish{color, key, nullptr, seat_};
    group_->meet(rank(), &wish, deadline(), [](const ThreadGroup::Given& given) {
      std::map<int32_t, std::vector<Wish*>> parts;
      for (void* const one : given) parts[static_cast<Wish*>(one)->color].push_back(static_cast<Wish*>(one));
      for (auto& [part_color, members] : parts) {
        std::stable_sort(members.begin(), members.end(), [](const Wish* a, const Wish* b) { return a->key < b->key; });
        const auto group = std::make_shared<ThreadGroup>(static_cast<int>(members.size()));
        for (size_t r = 0; r < members.size(); ++r) {
          members[r]->group = group;
          members[r]->seat.rank = static_cast<int>(r);
          members[r]->seat.size = static_cast<int>(members.size());
        }
      }
    });
    return color < 0 ? nullptr : std::make_unique<CountingComm>(wish.group, counts_, wish.seat);
  }

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream&) {
    uint64_t sent = 0;
    for (const cohort_message& message : messages) {
      if (message.is_send == 0) continue;
      sent += message.nbytes;
      group_->send(rank(), message);
    }
    counts_.add("exchange", sent);
    for (const cohort_message& message : messages) {
      if (message.is_send == 0) group_->receive(rank(), message, deadline());
    }
  }

  void all_reduce(const cohort_op_args& args) {
    run("all_reduce", args, bytes_of(args), [](const std::vector<Args>& all) {
      const Bytes result = reduced(all, 0, all[0]->count);
      for (const Args one : all) put(one->output, result.data(), result.size());
    });
  }
  void reduce(const cohort_op_args& args) {
    run("reduce", args, bytes_of(args), [](const std::vector<Args>& all) {
      const Bytes result = reduced(all, 0, all[0]->count);
      put(all[static_cast<size_t>(all[0]->root)]->output, result.data(), result.size());
    });
  }
  void broadcast(const cohort_op_args& args) {
    run("broadcast", args, bytes_of(args), [](const std::vector<Args>& all) {
      const void* const input = all[static_cast<size_t>(all[0]->root)]->input;
      for (const Args one : all) put(one->output, input, bytes_of(*one));
    });
  }
  void all_gather(const cohort_op_args& args) {
    const std::vector<uint64_t> offsets = offsets_of(args, args.counts, size());
    const auto own = static_cast<size_t>(rank());
    run("all_gather", args, offsets[own + 1] - offsets[own], [&offsets](const std::vector<Args>& all) {
      for (const Args one : all) {
        for (size_t r = 0; r < all.size(); ++r) {
          put(static_cast<std::byte*>(one->output) + offsets[r], all[r]->input, offsets[r + 1] - offsets[r]);
        }
      }
    });
  }
  void reduce_scatter(const cohort_op_args& args) {
    const std::vector<uint64_t> offsets = offsets_of(args, args.counts, size());
    run("reduce_scatter", args, offsets.back(), [&offsets](const std::vector<Args>& all) {
      std::vector<Bytes> pieces;
      for (size_t r = 0; r < all.size(); ++r) {
        pieces.push_back(reduced(all, offsets[r], (offsets[r + 1] - offsets[r]) / sdk::size_of(all[0]->dtype)));
      }
      for (size_t r = 0; r < all.size(); ++r) put(all[r]->output, pieces[r].data(), pieces[r].size());
    });
  }
  void all_to_all(const cohort_op_args& args) {
    run("all_to_all", args, offsets_of(args, args.counts, size()).back(), [](const std::vector<Args>& all) {
      const auto ranks = static_cast<int>(all.size());
      for (size_t to = 0; to < all.size(); ++to) {
        const uint64_t* const received = all[to]->recv_counts ? all[to]->recv_counts : all[to]->counts;
        const std::vector<uint64_t> places = offsets_of(*all[to], received, ranks);
        for (size_t from = 0; from < all.size(); ++from) {
          const std::vector<uint64_t> pieces = offsets_of(*all[from], all[from]->counts, ranks);
          put(static_cast<std::byte*>(all[to]->output) + places[from],
              static_cast<const std::byte*>(all[from]->input) + pieces[to], pieces[to + 1] - pieces[to]);
        }
      }
    });
  }
  void barrier() {
    counts_.add("barrier");
    group_->meet(rank(), nullptr, deadline(), [](const ThreadGroup::Given&) {});
  }

 private:
  using Args = const cohort_op_args*;
  std::shared_ptr<ThreadGroup> group_;
  Counts& counts_;
  Seat seat_;

  ThreadGroup::Deadline deadline() const {
    return std::chrono::steady_clock::now() + std::chrono::nanoseconds(seat_.timeout_ns);
  }

  template <class Move>
  void run(const char* operation, const cohort_op_args& args, uint64_t nbytes, const Move& move) {
    counts_.add(std::string(operation) + " " + sdk::name_of(args.dtype), nbytes);
    auto* const given = const_cast<cohort_op_args*>(&args);  // which the group hands on untouched
    group_->meet(rank(), given, deadline(), [&move](const ThreadGroup::Given& all) {
      std::vector<Args> by_rank;
      for (void* const one : all) by_rank.push_back(static_cast<Args>(one));
      move(by_rank);
    });
  }

  static void put(void* to, const void* from, uint64_t nbytes) {
    if (to != from && nbytes > 0) std::memmove(to, from, nbytes);
  }

  static Bytes reduced(const std::vector<Args>& all, uint64_t offset, uint64_t count) {
    std::vector<const std::byte*> sources;
    for (const Args one : all) sources.push_back(static_cast<const std::byte*>(one->input) + offset);
    Bytes result(count * sdk::size_of(all[0]->dtype));
    sdk::reduce_elements(all[0]->dtype, all[0]->reduce, {sources.data(), sources.size()}, result.data(), count);
    return result;
  }
};

struct Counting : sdk::Collective<Counting, CountingComm> {
  static constexpr bool kRankOrdered = true;
  static constexpr bool kRoundsOnce = true;
  CountedJob* job = nullptr;

  void create(const sdk::Options& options) {
    job = reinterpret_cast<CountedJob*>(options.integer("job"));  // NOLINT(performance-no-int-to-ptr)
  }
  // As the shipped collectives: ranks of one node share memory.
  std::unique_ptr<CountingComm> connect(const cohort_connect_args& args) {
    return std::make_unique<CountingComm>(job->world, job->ranks[static_cast<size_t>(args.rank)],
                                          Seat{args.rank, args.size, args.timeout_ns, args.num_nodes == 1});
  }
};

constexpr cohort_option kOptions[] = {
    sdk::option("job", "int", "0", "the address of the job, in this process"),
};

constexpr cohort_component kCounting =
    sdk::collective<Counting>("counting", "counts what ranks ask for, which are threads").options(kOptions);

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.test.counting", "1.0.0", "cohort", "Apache-2.0", kCounting)
