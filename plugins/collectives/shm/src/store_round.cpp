#include "store_round.hpp"

#include <algorithm>
#include <utility>

#include <cohort/sdk/duration.hpp>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/store_round.hpp>

namespace cohort::shm {

namespace {

constexpr char kRefused = '!';

std::string key_of(const std::string& round, int rank) {
  return "shm/" + round + "/" + std::to_string(rank);
}
std::string reply_of(const std::string& round) {
  return "shm/" + round + "/reply";
}

}  // namespace

StoreRounds::StoreRounds(cohort_store* store, int rank, std::vector<int> job_ranks, std::chrono::nanoseconds timeout)
    : store_(store),
      rank_(rank),
      job_ranks_(std::move(job_ranks)),
      timeout_(timeout),
      deadline_(std::chrono::steady_clock::now() + timeout) {}

std::string StoreRounds::round(const std::string& name, const std::string& value,
                               const std::function<std::string(const std::vector<std::string>&)>& reply) {
  set(key_of(name, rank_), sdk::with_size(size(), value));
  if (rank_ != 0) return heard(get(name, reply_of(name)));
  std::vector<std::string> values;
  try {
    for (int rank = 0; rank < size(); ++rank) {
      values.push_back(sdk::without_size(size(), get(name, key_of(name, rank)), name_of(rank)));
    }
  } catch (const sdk::Error& error) {
    // A rank connects a group of another size. The other ranks wait for the reply, so it has to carry the error.
    if (error.status() == COHORT_FAILED_PRECONDITION) set(reply_of(name), kRefused + std::string(error.what()));
    throw;
  }
  const std::string answer = reply(values);
  set(reply_of(name), sdk::with_size(size(), answer));
  return answer;
}

std::string StoreRounds::heard(const std::string& reply) const {
  if (!reply.empty() && reply[0] == kRefused) throw sdk::failed_precondition(reply.substr(1));
  return sdk::without_size(size(), reply, name_of(0));
}

void StoreRounds::forget(const std::string& name) {
  store_->vt->remove(store_, reply_of(name).c_str());
  for (int rank = 0; rank < size(); ++rank) store_->vt->remove(store_, key_of(name, rank).c_str());
}

std::string StoreRounds::get(const std::string& round, const std::string& key) {
  std::string value;
  const cohort_status status = sdk::detail::read_value(
      [&](char* buffer, uint64_t capacity, uint64_t* nbytes) {
        return store_->vt->get(store_, key.c_str(), time_left().count(), buffer, capacity, nbytes);
      },
      value);
  if (status != COHORT_OK) fail_with_missing(round, status);
  return value;
}

void StoreRounds::set(const std::string& key, const std::string& value) {
  const cohort_status status = store_->vt->set(store_, key.c_str(), value.data(), value.size());
  if (status != COHORT_OK) fail_without_store(status);
}

void StoreRounds::fail_without_store(cohort_status status) const {
  throw sdk::Error(status, "the job's store does not answer " + name_of(rank_) +
                               " while shm connects: rank 0 or the launcher, which serves it, is gone or stopped");
}

void StoreRounds::fail_with_missing(const std::string& round, cohort_status status) {
  if (status != COHORT_DEADLINE_EXCEEDED) fail_without_store(status);
  std::string names;
  std::vector<int> missing;
  for (int rank = 0; rank < size(); ++rank) {
    char value = 0;
    uint64_t nbytes = 0;
    if (store_->vt->try_get(store_, key_of(round, rank).c_str(), &value, 1, &nbytes) == COHORT_NOT_FOUND) {
      missing.push_back(rank);
    }
  }
  if (missing.empty()) missing = {0};
  for (const int rank : missing) names += (names.empty() ? "" : ", ") + name_of(rank);
  throw sdk::Error(COHORT_DEADLINE_EXCEEDED, names + " did not reach connect within " + sdk::in_words(timeout_),
                   missing);
}

std::chrono::nanoseconds StoreRounds::time_left() const {
  const auto left = deadline_ - std::chrono::steady_clock::now();
  return std::max<std::chrono::nanoseconds>(left, std::chrono::milliseconds(1));
}

}  // namespace cohort::shm
