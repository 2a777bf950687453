#include "connect.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "agree.hpp"
#include "place_of_process.hpp"
#include "store_round.hpp"

namespace cohort::shm {

namespace {

constexpr const char* kMeetRound = "meet";
constexpr const char* kOpenRound = "open";

/// Rank 0's answer to all: where the control segment is, or why there is none.
struct Invitation {
  Outcome outcome;
  SegmentAddress address;
};

template <class Record>
std::string to_bytes(const Record& record) {
  return std::string(reinterpret_cast<const char*>(&record), sizeof record);
}

template <class Record>
Record from_bytes(const std::string& bytes) {
  if (bytes.size() != sizeof(Record)) {
    throw sdk::Error(COHORT_DATA_LOSS,
                     "shm read something else than its own record from the store; ranks may run different versions");
  }
  Record record;
  std::memcpy(&record, bytes.data(), sizeof record);
  return record;
}

void require_one_machine(const std::vector<std::string>& places) {
  const ProcessPlace first = place_from(places.front());
  for (std::size_t rank = 1; rank < places.size(); ++rank) {
    const std::string reason = why_apart(first, place_from(places[rank]), static_cast<int>(rank));
    if (!reason.empty()) throw sdk::failed_precondition(reason);
  }
}

void throw_failure(const Outcome& outcome) {
  if (outcome.status != COHORT_OK) throw sdk::Error(outcome.status, outcome.message);
}

/// Two rounds: rank 0 invites all to its segment, then all tell whether they could come.
Segment common_segment(StoreRounds& store, int rank, int size) {
  Segment segment;
  const auto invite = [&](const std::vector<std::string>& places) {
    Invitation invitation{};
    invitation.outcome = outcome_of([&] {
      require_one_machine(places);
      segment = Segment::create(ControlLayout::nbytes(size), Pages::kOnTouch);
      ControlLayout(segment.data(), size).make_words(rank);
      invitation.address = segment.address();
    });
    return to_bytes(invitation);
  };
  const auto invitation = from_bytes<Invitation>(store.round(kMeetRound, to_text(own_place()), invite));
  throw_failure(heard(invitation.outcome));
  const Outcome opened = outcome_of([&] {
    if (rank == 0) return;
    segment = Segment::open(invitation.address, ControlLayout::nbytes(size), Pages::kOnTouch);
    ControlLayout(segment.data(), size).make_words(rank);
  });
  const auto judge = [](const std::vector<std::string>& answers) {
    Outcome verdict{COHORT_OK, {}};
    verdict = outcome_of([&] {
      std::vector<Outcome> outcomes;
      for (const std::string& answer : answers) outcomes.push_back(heard(from_bytes<Outcome>(answer)));
      require_success(outcomes);
    });
    return to_bytes(verdict);
  };
  throw_failure(heard(from_bytes<Outcome>(store.round(kOpenRound, to_bytes(opened), judge))));
  throw_failure(opened);  // whatever the store says of it: there is no segment
  segment.close_descriptor();
  return segment;
}

void check_args(const cohort_connect_args& args) {
  if (args.size < 1 || args.size > kMaxRanks || args.rank < 0 || args.rank >= args.size) {
    throw sdk::invalid_argument("shm connects 1 to " + std::to_string(kMaxRanks) + " ranks, but was asked for rank " +
                                std::to_string(args.rank) + " of " + std::to_string(args.size));
  }
  if (args.timeout_ns <= 0) throw sdk::invalid_argument("shm needs a timeout above 0");
}

}  // namespace

std::unique_ptr<Communicator> connect(const cohort_connect_args& args, ReduceFunction reduce) {
  check_args(args);
  std::vector<int> root_ranks(static_cast<std::size_t>(args.size));
  std::iota(root_ranks.begin(), root_ranks.end(), 0);
  std::vector<int> job_ranks = root_ranks;
  if (args.job_ranks) std::copy_n(args.job_ranks, args.size, job_ranks.begin());
  ChannelOptions options{
      args.rank, args.size, std::move(root_ranks), std::move(job_ranks), std::chrono::nanoseconds(args.timeout_ns),
      false};
  if (args.size == 1) {
    Segment segment = Segment::create(ControlLayout::nbytes(1), Pages::kOnTouch);
    segment.close_descriptor();
    ControlLayout(segment.data(), 1).make_words(0);
    return std::make_unique<Communicator>(std::move(segment), std::move(options), reduce);
  }
  StoreRounds store(args.store, args.rank, options.job_ranks, options.timeout);
  auto communicator =
      std::make_unique<Communicator>(common_segment(store, args.rank, args.size), std::move(options), reduce);
  if (args.rank == 0) {
    store.forget(kMeetRound);
    store.forget(kOpenRound);
  }
  return communicator;
}

}  // namespace cohort::shm
