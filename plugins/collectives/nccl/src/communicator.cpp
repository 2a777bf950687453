#include "communicator.hpp"

#include <cohort/sdk/store_round.hpp>

namespace cohort::nccl {

namespace {

constexpr uint64_t kAlignment = 512;  // blocks of other sizes waste the rest

uint64_t whole_blocks(uint64_t nbytes) {
  return (nbytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Family::Family(const sdk::Host& given_host, const cohort_connect_args& args, bool takes_own_sums,
               const std::shared_ptr<const Surroundings>& around)
    : host(given_host), own_sums(takes_own_sums), group(args), name(args.name), scratch(around), watch(around) {
  name.erase(0, name.rfind('/') + 1);
  if (args.job_ranks) job_ranks.assign(args.job_ranks, args.job_ranks + args.size);
  group.job_ranks = args.job_ranks ? job_ranks.data() : nullptr;
  group.name = name.c_str();
  group.master_addr = nullptr;
}

Communicator::Communicator(std::shared_ptr<Family> family, std::shared_ptr<Link> link)
    : family_(std::move(family)), link_(std::move(link)) {
  for (const auto& [memory, nbytes] : family_->memory) link_->use(memory, nbytes);
  family_->watch.add(link_);
  family_->links.push_back(link_);
}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key) {
  const std::string name = family_->name + " part " + std::to_string(++family_->num_parts);
  std::shared_ptr<Link> part = link_->split(color, key, name);
  return part ? std::make_unique<Communicator>(family_, std::move(part)) : nullptr;
}

// NCCL's calls are local here: the ranks agree through the store, so that one that does not come is named.
void* Communicator::alloc(uint64_t nbytes) {
  link_->check();
  const auto deadline = std::chrono::steady_clock::now() + link_->around().timeout;
  const std::string round = "alloc/" + std::to_string(family_->num_allocs++);
  for (const std::string& other : sdk::store_round(family_->group, round, std::to_string(nbytes), deadline)) {
    if (other == std::to_string(nbytes)) continue;
    throw sdk::failed_precondition("alloc on '" + family_->name + "': one rank asks for " + std::to_string(nbytes) +
                                   " bytes and another for " + other);
  }
  const Cuda& cuda = link_->around().cuda;
  const OnDevice on(cuda, link_->around().device);
  void* memory = nullptr;
  const uint64_t taken = whole_blocks(std::max<uint64_t>(nbytes, 1));
  if (const ncclResult_t result = nccl().MemAlloc(&memory, taken); result != ncclSuccess) {
    throw sdk::Error(COHORT_RESOURCE_EXHAUSTED,
                     "NCCL cannot allocate " + std::to_string(nbytes) + " bytes: " + nccl().text_of(result, nullptr));
  }
  cuda.check(cuda.Memset(memory, 0, taken), "cudaMemset");
  cuda.check(cuda.StreamSynchronize(nullptr), "cudaStreamSynchronize");
  family_->memory[memory] = taken;
  for (const auto& link : family_->links) {
    if (const auto user = link.lock()) user->use(memory, taken);
  }
  return memory;
}

void Communicator::release(void* memory) {
  for (const auto& link : family_->links) {
    if (const auto user = link.lock()) user->forget(memory);
  }
  const OnDevice on(link_->around().cuda, link_->around().device);
  family_->memory.erase(memory);
  nccl().MemFree(memory);
}

}  // namespace cohort::nccl
