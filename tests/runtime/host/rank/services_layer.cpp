// A free layer that uses one of the host's services, as `does` says, and checks what it is given.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

void require(bool condition, const std::string& what) {
  if (!condition) throw sdk::invalid_argument(what);
}

class Services : public sdk::Strategy<Services> {
 public:
  void create(const sdk::Options& options) {
    does_ = options.text("does");
    at_ = options.integer("at");
    state_ = options.text("state");
    stopped_ = does_ == "drop";
  }

  void init_dist_connection(cohort_dist_args& args) {
    if (does_ == "timeout" || does_ == "leave") args.timeout_ns = at_ * 1'000'000'000;
    if (does_ == "leave" && args.rank == 1) throw sdk::Error(COHORT_INTERNAL, "it leaves");
    below().init_dist_connection(args);
  }

  void configure_model() {
    below().configure_model();
    calls_ = "configure";
    if (does_ == "lane") ready_lane();
    if (does_ == "scale") host().optimizers().set_lr_factor(0, static_cast<double>(host().world().size()));
    if (does_ == "bad_lane") host().lane("user");
    if (does_ == "late_lane") {
      host().lane("early").submit(nap_);
      host().lane("late");
    }
    if (does_ == "other_lanes") host().lane(host().world().rank() == 0 ? "first" : "second");
    if (does_ == "job") check_job();
    if (does_ == "roles") check_roles();
    if (does_ == "memory") check_memory();
    if (does_ == "bad_factor") host().optimizers().set_lr_factor(0, 0.0);
    if (does_ == "operations") try_operations();
    if (does_ == "lost_message") lose_message();
    if (does_ == "early_want") host().buckets().want(COHORT_BUCKET_WEIGHT);
  }

  void plan_buckets(cohort_bucket_plan& plan) {
    below().plan_buckets(plan);
    calls_ += ", plan";
    if (stopped_) {
      host().buckets().drop(COHORT_BUCKET_GRAD);
      host().buckets().want(COHORT_BUCKET_WEIGHT);
    }
    if (does_ == "halve") {
      host().buckets().want(COHORT_BUCKET_OPTIM, state_.c_str());
      plan.size = 8;
    }
    if (does_ == "bad_flag") plan.flags |= 1u << 31;
    if (does_ == "bad_drop") host().buckets().drop(COHORT_BUCKET_WEIGHT);
    if (does_ == "bad_type") host().buckets().want(COHORT_BUCKET_STATE, "mine", 99);
  }

  void layout_ready(int32_t reason) {
    below().layout_ready(reason);
    if (does_ == "halve") require(host().buckets().count() > 1, "there are several buckets");
    calls_ += ", ready " + std::to_string(reason);
    if (does_ == "reasons" && reason == COHORT_LAYOUT_RESUMED) {
      require(calls_ == "configure, plan, ready 1, plan, ready 3, ready 2", calls_);
    }
    if (does_ == "new_parts") check_new_parts(reason);
    if (does_ == "roles") check_roles_of_buckets();
    if (does_ == "early_view") host().buckets().view(0, COHORT_BUCKET_GRAD);
  }

  void begin_step(const cohort_step& step) {
    below().begin_step(step);
    if (does_ == "refused") check_refusals();
    if (does_ == "refused_last") add_up_unknown(99, COHORT_REDUCE_SUM);
    if (does_ != "lane") return;
    step_ = static_cast<int64_t>(step.step);
    require(lanes_.size() == 2, "both lanes are there");
    for (const sdk::Lane& lane : lanes_) tickets_.push_back(lane.submit(sum_));
  }

  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) {
    below().reduce_bucket(step, bucket);
    ++reduced_;
  }

  void end_backward(const cohort_step& step) {
    below().end_backward(step);
    if (does_ != "lane") return;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      while (!lanes_[i].wait_for(tickets_[i], 1'000'000)) {
      }
      lanes_[i].wait(tickets_[i]);
      require(lanes_[i].is_done(tickets_[i]), "what was waited for is done");
    }
    tickets_.clear();
    require(sums_ == 2 * (step.step + 1), "each lane has summed once in this step");
  }

  void optimizer_step(const cohort_step& step) {
    below().optimizer_step(step);
    if (does_ == "loop") require(step.flags & COHORT_STEP_LAST_PHASE, "a loop may end its step with any optimizer");
    if (does_ == "halve") halve();
    if (does_ == "scale") require(host().optimizers().hyper(0, "lr") == 0.5, "the factor is not part of the rate");
    if (does_ == "stop_averaging" && static_cast<int64_t>(step.step) == at_) {
      stopped_ = true;
      host().buckets().request_relayout();
    }
  }

  void end_step(const cohort_step& step) {
    below().end_step(step);
    if (does_ == "reasons" && step.step == 0) host().buckets().request_relayout();
    if (does_ == "unused") check_unused();
    if (does_ == "count") count(step.step + 1);
  }

  void save_state() {
    below().save_state();
    uint64_t value = 0;
    if (does_ == "archive_flag") host().save("key", &value, sizeof value, 8);
    if (does_ == "archive_null") host().save("key", nullptr, sizeof value);
    if (does_ == "archive_long_key") {
      host().save(std::string(256, 'k').c_str(), &value, sizeof value);
      host().save(std::string(257, 'k').c_str(), &value, sizeof value);
    }
    if (does_ == "archive_get_early") host().load("key", &value, sizeof value);
  }

  void load_state() {
    below().load_state();
    if (does_ == "archive_set_late") host().save("key", nullptr, 0);
    if (does_ != "stop_averaging") return;
    stopped_ = true;
    host().buckets().request_relayout();
  }

 private:
  // A checkpoint has the state of all parameters, so none is new after it.
  void check_new_parts(int32_t reason) {
    for (uint32_t index = 0; index < host().buckets().count(); ++index) {
      const cohort_bucket& bucket = host().buckets().at(index);
      for (uint64_t part = 0; part < bucket.num_parts; ++part) {
        const bool is_new = (bucket.parts[part].flags & COHORT_PART_NEW) != 0;
        require(is_new == (reason == COHORT_LAYOUT_NEW), "PART_NEW with reason " + std::to_string(reason));
      }
    }
  }

  void check_job() {
    const cohort_job_info job = host().job();
    const sdk::Comm world = host().world();
    require(job.rank == world.rank() && job.world_size == world.size(), "it is this rank's place");
    require(job.local_rank == world.rank() && job.local_world_size == world.size(), "there is one node");
    require(job.node_rank == 0 && job.num_nodes == 1 && job.replicas == 1, "of one replica");
    require(job.seed == 0 && job.flags == 0, "nothing else is set");
    require(std::string(job.run_id) == "toy" && std::string(job.precision) == "32" && *job.log_dir == 0,
            "texts are there");
    cohort_job_info shorter{};
    shorter.struct_size = COHORT_END(cohort_job_info, rank);
    const auto* const table =
        static_cast<const cohort_job_1*>(host().raw()->get_interface(host().raw(), COHORT_JOB_ID));
    require(table->get(host().raw(), &shorter) == COHORT_INVALID_ARGUMENT, "every version has all of 1.0");
  }

  void ready_lane() {
    sdk::Lane first = host().lane("aside");
    host().lane("aside");  // the same one
    lanes_.clear();
    lanes_.push_back(first);
    lanes_.push_back(host().default_lane());
  }

  // Every operation on the world of one rank leaves what the rank gave.
  void try_operations() {
    const sdk::Comm world = host().world();
    require(world && world.rank() == 0 && world.size() == 1, "there is a world of one rank");
    require(ranks_of(COHORT_ROLE_NODE) == std::vector<int32_t>{0} &&
                ranks_of(COHORT_ROLE_LEADERS) == std::vector<int32_t>{0},
            "the rank is its node and a leader");
    const std::vector<float> given{1, 2, 3};
    std::vector<float> values = given, other(3);
    const sdk::Elements in_place{values.data(), 3, COHORT_FLOAT32};
    world.all_reduce(in_place, COHORT_REDUCE_MEAN);
    world.reduce(in_place, COHORT_REDUCE_SUM, 0);
    world.broadcast(in_place, 0);
    require(values == given, "nothing changes in place");
    world.all_reduce(in_place, other.data(), COHORT_REDUCE_SUM);
    require(other == given, "all_reduce copies");
    for (const int operation : {0, 1, 2, 3}) {
      other.assign(3, 0);
      if (operation == 0) world.all_gather(in_place, other.data());
      if (operation == 1) world.reduce_scatter(in_place, other.data(), 3, COHORT_REDUCE_MEAN);
      if (operation == 2) world.all_to_all(in_place, other.data(), 3);
      const cohort_message messages[] = {{values.data(), 12, 0, 1}, {other.data(), 12, 0, 0}};
      if (operation == 3) world.exchange({messages, 2});
      require(other == given, "operation " + std::to_string(operation) + " copies");
    }
    world.barrier();
  }

  void lose_message() {
    float value = 1;
    const cohort_message sent[] = {{&value, sizeof value, 0, 1}};
    host().world().exchange({sent, 1});
  }

  // All gradients can be viewed, also those of a parameter that no rank has used.
  void check_unused() {
    const sdk::Buckets buckets = host().buckets();
    for (uint32_t i = 0; i < buckets.count(); ++i) {
      const auto gradients = buckets.view(i, COHORT_BUCKET_GRAD).span<float>();
      const cohort_bucket& bucket = buckets.at(i);
      for (uint64_t part = 0; part < bucket.num_parts; ++part) {
        const bool is_used = std::string(bucket.parts[part].name) == "a";
        require((gradients[bucket.parts[part].offset] != 0) == is_used, bucket.parts[part].name);
      }
    }
  }

  // Throws where a communicator of two nodes with two ranks each has other ranks than its role says.
  void check_roles() {
    const int32_t own = host().world().rank(), leader = own / 2 * 2;
    const std::vector<int32_t> node{leader, leader + 1}, leaders{0, 2}, none;
    require(ranks_of(COHORT_ROLE_WORLD) == std::vector<int32_t>{0, 1, 2, 3}, "the world is all ranks");
    require(ranks_of(COHORT_ROLE_JOB) == std::vector<int32_t>{0, 1, 2, 3}, "the job is all ranks");
    require(!host().comm(99), "of a role that the host does not know there is none");
    require(ranks_of(COHORT_ROLE_NODE) == node, "a node is the ranks of that node");
    require(ranks_of(COHORT_ROLE_LEADERS) == (own == leader ? leaders : none),
            "the leaders are the first of each node");
  }

  // This host does not spread a model over ranks.
  void check_roles_of_buckets() {
    const sdk::Buckets buckets = host().buckets();
    require(buckets.count() > 0, "there are buckets");
    for (uint32_t i = 0; i < buckets.count(); ++i) {
      require(buckets.at(i).role == COHORT_ROLE_WORLD, "all ranks have a bucket's parameters");
      require(host().comm(buckets.at(i)).raw() == host().world().raw(), "its communicator is that of its role");
    }
  }

  // On the CPU both directions are plain copies, which are done when the call returns.
  void check_memory() {
    const cohort_stream cpu = host().stream(COHORT_DEVICE_CPU, 0);
    const sdk::DeviceBuffer memory = host().alloc(COHORT_DEVICE_CPU, 0, 4 * sizeof(double));
    double given[4] = {1, 2, 3, 4}, read[4] = {}, part[2] = {7, 8};
    host().write(memory.data(), given, sizeof given, cpu);
    given[0] = -1;
    host().write(static_cast<double*>(memory.data()) + 2, part, sizeof part, cpu);
    host().write(memory.data(), nullptr, 0, cpu);
    host().read(read, memory.data(), sizeof read, cpu);
    require(read[0] == 1 && read[1] == 2 && read[2] == 7 && read[3] == 8, "what was written is there");
  }

  cohort_status status_of_sum(int32_t dtype, int32_t reduce) {
    try {
      add_up_unknown(dtype, reduce);
    } catch (const sdk::Error& error) {
      return error.status();
    }
    return COHORT_OK;
  }
  void add_up_unknown(int32_t dtype, int32_t reduce) {
    double value = 1;
    host().world().all_reduce({&value, 1, dtype}, reduce);
  }

  // Outside the lane of the communicator: what is refused there has sent nothing, so that the lane works on.
  void check_refusals() {
    require(status_of_sum(99, COHORT_REDUCE_SUM) == COHORT_UNIMPLEMENTED, "a type that nobody knows");
    require(status_of_sum(COHORT_FLOAT32, 77) == COHORT_UNIMPLEMENTED, "an operation that nobody knows");
    require(status_of_sum(COHORT_FLOAT32, COHORT_REDUCE_BIT_OR) == COHORT_INVALID_ARGUMENT, "not of floats");
    int64_t sum = host().world().rank() + 1;
    host().world().all_reduce({&sum, 1, COHORT_INT64}, COHORT_REDUCE_SUM);
    require(sum == host().world().size() * (host().world().size() + 1) / 2, "the same communicator adds");
  }

  std::vector<int32_t> ranks_of(int32_t role) {
    const sdk::Comm comm = host().comm(role);
    if (!comm) return {};
    int32_t own = host().world().rank();
    std::vector<int32_t> ranks(static_cast<size_t>(comm.size()));
    comm.all_gather({&own, 1, COHORT_INT32}, ranks.data());
    return ranks;
  }

  // Metrics come from any thread.
  void count(uint64_t steps) {
    std::thread([&] { host().set_metric("half_steps", static_cast<double>(2 * steps)); }).join();
    if (at_ == 0) host().set_metric(state_.c_str(), 1.0);
    if (at_ == 1) host().set_metric("endless", std::numeric_limits<double>::infinity());
  }

  // Runs on a lane: over that lane's own communicators.
  void add_up() {
    if (step_ == at_) throw sdk::invalid_argument("the lane broke");
    for (const int32_t role : {COHORT_ROLE_WORLD, COHORT_ROLE_NODE, COHORT_ROLE_LEADERS}) {
      const sdk::Comm comm = host().comm(role);
      if (!comm) continue;
      std::vector<double> ones(1000, 1.0);
      comm.all_reduce({ones.data(), ones.size(), COHORT_FLOAT64}, COHORT_REDUCE_SUM);
      for (const double sum : ones) require(sum == comm.size(), "every rank has added one");
    }
    ++sums_;
  }

  // The state of the optimizer, where it lies, and its count of steps, which it has moved on.
  void halve() {
    const sdk::Buckets buckets = host().buckets();
    for (uint32_t i = 0; i < buckets.count(); ++i) {
      for (float& value : buckets.view(i, COHORT_BUCKET_OPTIM, state_.c_str()).span<float>()) value /= 2;
    }
    if (host().optimizers().kind(0) == "sgd") {
      require(!host().optimizers().steps(0), "sgd counts no steps");
    } else {
      host().optimizers().set_steps(0, *host().optimizers().steps(0) + 1);
    }
  }

  std::string does_, state_;
  std::string calls_;  // of slots about the layout, since training began
  int64_t at_ = 0, step_ = 0;
  bool stopped_ = false;
  std::vector<sdk::Lane> lanes_;
  std::vector<sdk::Lane::Ticket> tickets_;
  sdk::LaneTask sum_{[this] { add_up(); }};
  sdk::LaneTask nap_{[] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); }};
  std::atomic<uint64_t> sums_{0};
  uint64_t reduced_ = 0;
};

constexpr cohort_option kOptions[] = {
    sdk::option("does", "string", "nothing", "what it does"),
    sdk::option("at", "int", "-1", "a step"),
    sdk::option("state", "string", "momentum_buffer", "state of the optimizer"),
};
constexpr cohort_component kServices =
    sdk::strategy<Services>("services", "uses the host's services").inherits("*").options(kOptions);

}  // namespace

COHORT_SDK_PLUGIN("org.example.services", "1.0.0", "Example", "MIT", kServices)
