#include "communicator.hpp"

#include <cohort/sdk/own_copy.hpp>

namespace cohort::nccl {

Family::Family(const sdk::Host& given_host, const cohort_connect_args& args, bool takes_own_sums,
               const std::shared_ptr<const Surroundings>& around)
    : host(given_host),
      own_sums(takes_own_sums),
      group(sdk::own_copy(args)),
      name(args.name),
      scratch(around),
      watch(around) {
  name.erase(0, name.rfind('/') + 1);
  if (args.job_ranks) job_ranks.assign(args.job_ranks, args.job_ranks + args.size);
  group.job_ranks = args.job_ranks ? job_ranks.data() : nullptr;
  group.name = name.c_str();
  group.master_addr = nullptr;
}

Communicator::Communicator(std::shared_ptr<Family> family, std::shared_ptr<Link> link)
    : family_(std::move(family)), link_(std::move(link)) {
  family_->watch.add(link_);
}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key) {
  const std::string name = family_->name + " part " + std::to_string(++family_->num_parts);
  std::shared_ptr<Link> part = link_->split(color, key, name);
  return part ? std::make_unique<Communicator>(family_, std::move(part)) : nullptr;
}

}  // namespace cohort::nccl
