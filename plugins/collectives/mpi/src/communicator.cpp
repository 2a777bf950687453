#include "communicator.hpp"

#include <algorithm>
#include <new>
#include <numeric>

#include <cohort/sdk/exchange.hpp>
#include <cohort/sdk/hash.hpp>

#include "operation.hpp"
#include "types.hpp"

namespace cohort::mpi {

namespace {

constexpr std::align_val_t kLine{64};

/// The ranks that `part` has in `whole`, in its order.
std::vector<int> members_of(MPI_Comm part, MPI_Comm whole) {
  MPI_Group part_group = MPI_GROUP_NULL, whole_group = MPI_GROUP_NULL;
  ::MPI_Comm_group(part, &part_group);
  ::MPI_Comm_group(whole, &whole_group);
  int size = 0;
  ::MPI_Group_size(part_group, &size);
  std::vector<int> own(static_cast<std::size_t>(size)), members(own.size());
  std::iota(own.begin(), own.end(), 0);
  ::MPI_Group_translate_ranks(part_group, size, own.data(), whole_group, members.data());
  ::MPI_Group_free(&part_group);
  ::MPI_Group_free(&whole_group);
  return members;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Network> network, const std::string& name, Sums sums, FloatSum float_sum,
                           bool is_one_machine)
    : network_(std::move(network)),
      comm_(network_->comm()),
      is_root_(true),
      members_(members_of(comm_, comm_)),
      name_(name.substr(name.rfind('/') + 1)),
      sums_(sums),
      float_sum_(float_sum) {
  ::MPI_Comm_rank(comm_, &rank_);
  memory_ = std::make_shared<SharedMemory>(rank_, is_one_machine);
}

Communicator::Communicator(const Communicator& whole, MPI_Comm comm, int number)
    : network_(whole.network_),
      memory_(whole.memory_),
      comm_(comm),
      is_root_(false),
      members_(members_of(comm, network_->comm())),
      name_(whole.name_.substr(0, whole.name_.find(" part ")) + " part " + std::to_string(number)),
      sums_(whole.sums_),
      float_sum_(whole.float_sum_) {
  ::MPI_Comm_rank(comm_, &rank_);
}

// The root's is the network's. After a failure messages may be under way still: it is left to MPI.
Communicator::~Communicator() {
  if (!is_root_ && !is_aborted_ && network_->is_alive()) network_->library().retire(comm_);
}

// MPI waits for all ranks inside of it, without a deadline: so they all are here first.
std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key) {
  const auto number = static_cast<int>(-least("split", {-network_->next_number()}).front());
  network_->use_number(number);
  auto part = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  const auto make = [comm = comm_, color, key, part] {
    return ::MPI_Comm_split(comm, color < 0 ? MPI_UNDEFINED : color, key, part.get());
  };
  call_together("MPI_Comm_split", "split", make);
  if (color < 0) return nullptr;
  return std::unique_ptr<Communicator>(new Communicator(*this, *part, number));
}

void Communicator::abort() {
  if (!is_aborted_.exchange(true)) network_->give_up();
}

void Communicator::require_usable() const {
  if (is_aborted_) throw sdk::Error(COHORT_ABORTED, "'" + name_ + "' was aborted");
  network_->require_alive();
}

int Communicator::tag_of(std::initializer_list<uint64_t> signature) const {
  const auto tags = static_cast<uint64_t>(network_->library().tag_limit() - 1);
  return 1 + static_cast<int>(sdk::Hash(signature).value() % tags);
}

void Communicator::exchange(sdk::Span<const cohort_message> messages, const cohort_stream&) {
  constexpr uint64_t kExchange = 1;
  Operation operation(*this, [&] { return "exchange of " + std::to_string(messages.size()) + " messages"; });
  sdk::check_exchange(messages, rank_, size());
  sdk::copy_own(messages, rank_);
  // What finds its receiver waiting needs no second copy.
  for (const bool sends : {false, true}) {
    for (const cohort_message& message : messages) {
      if (message.peer == rank_ || (message.is_send != 0) != sends) continue;
      const int tag = tag_of({kExchange, message.nbytes});
      if (sends) {
        operation.send(message.peer, message.data, message.nbytes, tag);
      } else {
        operation.receive(message.peer, message.data, message.nbytes, tag);
      }
    }
  }
  operation.wait_all();
}

void Communicator::barrier() {
  Operation operation(*this, [] { return std::string("barrier"); });
  operation.begin([&](MPI_Request* request) { return ::MPI_Ibarrier(comm_, request); });
  operation.wait_all();
}

std::byte* Communicator::Scratch::of(uint64_t nbytes) {
  if (nbytes > nbytes_) {
    nbytes_ = 0;
    memory_.reset();
    memory_.reset(static_cast<std::byte*>(::operator new(nbytes, kLine)));
    nbytes_ = nbytes;
  }
  return memory_.get();
}

void Communicator::Scratch::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, kLine);
}

}  // namespace cohort::mpi
