// A free layer that makes groups of ranks: it adds up over pairs, or does with them what it must not, as `does` says.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

void require(bool condition, const std::string& what) {
  if (!condition) throw sdk::invalid_argument(what);
}

class Groups : public sdk::Strategy<Groups> {
 public:
  void create(const sdk::Options& options) { does_ = options.text("does"); }

  void configure_model() {
    below().configure_model();
    const sdk::Comm world = host().world();
    const int rank = world.rank();
    lane_.emplace(host().lane("pairs"));
    pair_ = world.split(rank / 2, -rank, "pair", lane_->index());  // in reverse order
    odd_ = world.split(rank % 2 == 1 ? 0 : -1, rank, "odd");
    if (does_ == "add") add();
    if (does_ == "share") share();
    if (does_ == "again") again();
    if (does_ == "abort") abort();
    if (does_ == "close_world") check_close(world);
    if (does_ == "close_first") close_before_its_part();
    if (does_ == "twice") use_after_close();
    if (does_ == "foreign") use_foreign();
    if (does_ == "no_lane") world.split(0, rank, "pair", 9);
    if (does_ == "no_name") world.split(0, rank, "A pair");
    if (does_ == "bind") bind_part();
    if (does_ == "open") open_over_the_job();
    if (does_ == "open_alone") open_alone();
    if (does_ == "open_no_name") open(nullptr, world.rank(), world.size(), nullptr);
    if (does_ == "open_no_rank") open("all", world.size(), world.size(), nullptr);
  }

  void begin_step(const cohort_step& step) {
    below().begin_step(step);
    if (does_ == "add") lane_->wait(lane_->submit(sum_));
  }

 private:
  // On the lane of the pair, while the step thread does something else.
  void add() {
    std::vector<double> ranks{static_cast<double>(host().world().rank())};
    pair_.all_reduce({ranks.data(), 1, COHORT_FLOAT64}, COHORT_REDUCE_SUM);
    const int first = host().world().rank() / 2 * 2;
    const bool is_alone = pair_.size() == 1;
    require(ranks[0] == (is_alone ? first : 2 * first + 1), "a pair adds its ranks");
    require(pair_.rank() == (is_alone || host().world().rank() % 2 == 1 ? 0 : 1), "the key orders the ranks");
    require(static_cast<bool>(odd_) == (host().world().rank() % 2 == 1), "odd ranks alone have the group");
  }

  // Memory of the root serves the parts.
  void share() {
    const sdk::Comm world = host().world();
    auto* const values = static_cast<float*>(world.alloc(4096 * sizeof(float)));
    for (int i = 0; i < 4096; ++i) require(values[i] == 0, "memory is zero-filled");
    for (int i = 0; i < 4096; ++i) values[i] = 1;
    world.all_reduce({values, 4096, COHORT_FLOAT32}, COHORT_REDUCE_SUM);
    require(values[4095] == static_cast<float>(world.size()), "the world adds in memory of its root");
    pair_.all_reduce({values, 4096, COHORT_FLOAT32}, COHORT_REDUCE_SUM);
    require(values[0] == static_cast<float>(world.size() * pair_.size()), "a part adds in memory of its root");
    world.release(values);
  }

  void again() {
    for (int i = 0; i < 50; ++i) {
      sdk::OwnedComm part = host().world().split(0, host().world().rank(), "part");
      sdk::OwnedComm half = part.split(part.rank() % 2, part.rank(), "half");
      half.barrier();
    }
  }

  void abort() {
    pair_.abort();
    pair_.barrier();
  }

  void check_close(const sdk::Comm& comm) {
    cohort_comm* const raw = comm.raw();
    sdk::check(service().close(host().raw(), raw));
  }
  void close_before_its_part() {
    sdk::OwnedComm part = host().world().split(0, host().world().rank());
    const sdk::OwnedComm half = part.split(0, part.rank());
    check_close(part);
  }
  void use_after_close() {
    cohort_comm* const raw = pair_.raw();
    pair_ = sdk::OwnedComm();
    sdk::check(service().barrier(host().raw(), raw));
  }
  void use_foreign() {
    cohort_comm own{};
    own.struct_size = sizeof own;
    own.size = 1;
    sdk::check(service().barrier(host().raw(), &own));
  }
  sdk::OwnedComm open(const char* name, int32_t rank, int32_t size, const int32_t* job_ranks) {
    cohort_connect_args group{};
    group.struct_size = sizeof group;
    group.rank = rank;
    group.size = size;
    group.device_type = COHORT_DEVICE_CPU;
    group.timeout_ns = 20'000'000'000;
    group.name = name;
    group.job_ranks = job_ranks;
    group.num_nodes = 1;
    return host().open_comm(nullptr, group);
  }

  // Groups without a store of their own, in every training under the same names: of all ranks, and the even and the odd
  // ones beside each other.
  void open_over_the_job() {
    const int rank = host().world().rank(), size = host().world().size();
    const std::string parity = rank % 2 == 0 ? "even" : "odd";
    std::vector<int32_t> members;
    int sum = 0, sum_of_all = 0;
    for (int other = 0; other < size; ++other) {
      sum_of_all += other;
      if (other % 2 != rank % 2) continue;
      sum += other;
      members.push_back(other);
    }
    const auto num_members = static_cast<int32_t>(members.size());
    const sdk::OwnedComm all = open("all", rank, size, nullptr);
    const sdk::OwnedComm half = open(parity.c_str(), rank / 2, num_members, members.data());
    require(all.size() == size && half.size() == num_members && half.rank() == rank / 2, "groups have their ranks");
    require(sum_over(all, rank) == sum_of_all, "all ranks add");
    require(sum_over(half, rank) == sum, "the " + parity + " ranks add");
  }
  static int64_t sum_over(const sdk::Comm& comm, int64_t value) {
    comm.all_reduce({&value, 1, COHORT_INT64}, COHORT_REDUCE_SUM);
    return value;
  }

  // Every rank has a group of its own under the same name.
  void open_alone() {
    const sdk::OwnedComm alone = open("alone", 0, 1, nullptr);
    require(alone.size() == 1 && alone.rank() == 0, "one rank");
    require(sum_over(alone, host().world().rank()) == host().world().rank(), "nobody else adds");
  }

  void bind_part() { host().bind(host().world().split(0, 0)); }

  const cohort_comm_1& service() {
    return *static_cast<const cohort_comm_1*>(host().raw()->get_interface(host().raw(), COHORT_COMM_ID));
  }

  std::string does_;
  std::optional<sdk::Lane> lane_;
  sdk::OwnedComm pair_, odd_;
  sdk::LaneTask sum_{[this] { add(); }};
};

constexpr cohort_option kOptions[] = {sdk::option("does", "string", "add", "what it does")};
constexpr cohort_component kGroups =
    sdk::strategy<Groups>("groups", "makes groups of ranks").inherits("*").options(kOptions);

}  // namespace

COHORT_SDK_PLUGIN("org.example.groups", "1.0.0", "Example", "MIT", kGroups)
