#include "rank_comm.hpp"

#include <utility>

#include "fake_proof.hpp"

namespace cohort::test {

RankCollective::RankCollective(const cohort_component& component, const OptionValues& values)
    : object_{sizeof(cohort_collective), 0, static_cast<const cohort_collective_vt*>(component.vtable), nullptr,
              host_.raw()} {
  host_.offer(COHORT_PROOF_ID, &fake_proof());
  std::vector<cohort_key_value> options;
  for (uint64_t i = 0; i < component.num_options; ++i) {
    const auto value = values.find(component.options[i].key);
    const bool is_default = value == values.end();
    options.push_back(
        {component.options[i].key, is_default ? component.options[i].default_value : value->second.c_str()});
  }
  if (vt().create) check(vt().create(&object_, options.data(), options.size()));
}

RankCollective::~RankCollective() {
  if (vt().destroy) vt().destroy(&object_);
}

void RankCollective::check(cohort_status status) {
  if (status == COHORT_OK) return;
  FakeHost::Failure failure = host_.take_failure_with_peers();
  throw CallFailed(status, failure.message, std::move(failure.peers));
}

RankComm::RankComm(const cohort_component& component, cohort_store* store, int rank, int size,
                   std::chrono::nanoseconds timeout, const OptionValues& options, const std::vector<int32_t>& job_ranks,
                   const GroupKey& key)
    : collective_(std::make_shared<RankCollective>(component, options)) {
  cohort_connect_args args{};
  args.struct_size = sizeof args;
  args.rank = rank;
  args.size = size;
  args.device_type = COHORT_DEVICE_CPU;
  args.timeout_ns = timeout.count();
  args.store = store;
  args.job_ranks = job_ranks.empty() ? nullptr : job_ranks.data();
  if (size > 1) args.key = key.data();
  if (size > 1) args.key_nbytes = static_cast<uint32_t>(key.size());
  comm_.struct_size = sizeof comm_;
  comm_.rank = rank;
  comm_.size = size;
  comm_.collective = collective_->object();
  collective_->check(vt().connect(collective_->object(), &args, &comm_));
}

RankComm::RankComm(std::shared_ptr<RankCollective> collective) : collective_(std::move(collective)) {
  comm_.struct_size = sizeof comm_;
  comm_.collective = collective_->object();
}

RankComm::RankComm(RankComm&& other) noexcept
    : collective_(std::move(other.collective_)), comm_(std::exchange(other.comm_, cohort_comm{})) {}

RankComm::~RankComm() {
  if (comm_.data) vt().close(collective_->object(), &comm_);
}

RankComm RankComm::split(int color, int key) {
  RankComm part(collective_);
  collective_->check(vt().split(collective_->object(), &comm_, color, key, &part.comm_));
  return part;
}

void RankComm::abort() {
  vt().abort(collective_->object(), &comm_);
}

void* RankComm::alloc(uint64_t nbytes) {
  void* memory = nullptr;
  collective_->check(vt().alloc(collective_->object(), &comm_, nbytes, &memory));
  return memory;
}

void RankComm::release(void* memory) {
  vt().release(collective_->object(), &comm_, memory);
}

cohort_op_args RankComm::operation(const void* input, void* output, int32_t dtype, uint64_t count) const {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = dtype;
  args.input = input;
  args.output = output;
  args.count = count;
  args.stream.device_type = COHORT_DEVICE_CPU;
  return args;
}

void RankComm::all_reduce(const void* input, void* output, int32_t dtype, uint64_t count, int32_t reduce) {
  cohort_op_args args = operation(input, output, dtype, count);
  args.reduce = reduce;
  collective_->check(vt().all_reduce(collective_->object(), &comm_, &args));
}

void RankComm::broadcast(const void* input, void* output, int32_t dtype, uint64_t count, int32_t root) {
  cohort_op_args args = operation(input, output, dtype, count);
  args.root = root;
  collective_->check(vt().broadcast(collective_->object(), &comm_, &args));
}

void RankComm::all_gather(const void* input, void* output, int32_t dtype, uint64_t count) {
  const cohort_op_args args = operation(input, output, dtype, count);
  collective_->check(vt().all_gather(collective_->object(), &comm_, &args));
}

void RankComm::reduce(const void* input, void* output, int32_t dtype, uint64_t count, int32_t reduce, int32_t root) {
  cohort_op_args args = operation(input, output, dtype, count);
  args.reduce = reduce;
  args.root = root;
  collective_->check(vt().reduce(collective_->object(), &comm_, &args));
}

void RankComm::all_gather(const void* input, void* output, int32_t dtype, const std::vector<uint64_t>& counts) {
  cohort_op_args args = operation(input, output, dtype, 0);
  args.counts = counts.data();
  collective_->check(vt().all_gather(collective_->object(), &comm_, &args));
}

void RankComm::reduce_scatter(const void* input, void* output, int32_t dtype, const std::vector<uint64_t>& counts,
                              int32_t reduce) {
  cohort_op_args args = operation(input, output, dtype, 0);
  args.reduce = reduce;
  args.counts = counts.data();
  collective_->check(vt().reduce_scatter(collective_->object(), &comm_, &args));
}

void RankComm::exchange(const std::vector<cohort_message>& messages) {
  cohort_exchange_args args{};
  args.struct_size = sizeof args;
  args.messages = messages.data();
  args.num_messages = messages.size();
  args.stream.device_type = COHORT_DEVICE_CPU;
  collective_->check(vt().exchange(collective_->object(), &comm_, &args));
}

void RankComm::barrier() {
  collective_->check(vt().barrier(collective_->object(), &comm_));
}

}  // namespace cohort::test
