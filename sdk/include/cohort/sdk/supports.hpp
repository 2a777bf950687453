// Abilities of a component: the host's question and the plugin's answer.
//
//   cohort::sdk::Answer supports(const cohort::sdk::Query& query) {
//     if (query.use() == COHORT_USE_NODES) return cohort::sdk::no("its ranks are threads", "choose --strategy=ddp");
//     return cohort::sdk::yes_to_known(query);
//   }
//   constexpr cohort_component kLoud = cohort::sdk::strategy<Loud>("loud", "ddp that talks").supports<supports>();
//
// Answer unknown() to uses that only newer hosts know: the host's default then holds. `supports` is pure, and runs
// before the component exists. Threads: [main].
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <cohort/api/plugin.h>
#include <cohort/api/tensor.h>
#include <cohort/sdk/options.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// A plugin's answer about a use. The texts are literals.
struct Answer {
  int32_t answer = COHORT_ANSWER_UNKNOWN;
  const char* why = nullptr;
  const char* fix = nullptr;
};

constexpr Answer unknown() {
  return {};
}
constexpr Answer yes() {
  return {COHORT_ANSWER_YES, nullptr, nullptr};
}
/// Returns NO. `why`: "its replicas are threads of one process"; `fix`: "choose --strategy=ddp".
constexpr Answer no(const char* why, const char* fix) {
  return {COHORT_ANSWER_NO, why, fix};
}

/// A question about one use in one job; see cohort_query. An unknown number is 0: the answer then holds for any number.
/// Borrows `query`.
class Query {
 public:
  explicit Query(const cohort_query& query) : query_(query) {}

  int32_t use() const { return query_.use; }
  int64_t value() const { return query_.value; }
  int32_t world_size() const { return query_.world_size; }
  int32_t num_nodes() const { return query_.num_nodes; }
  int32_t local_world_size() const { return query_.local_world_size; }
  int32_t replicas() const { return query_.replicas; }
  std::string_view variant() const { return query_.variant; }
  Options options() const { return {query_.variant, query_.options, query_.num_options}; }
  /// Returns, for a free layer, the spec of the strategy below it, as a user writes it.
  std::string_view below_spec() const { return query_.below_spec; }

 private:
  const cohort_query& query_;
};

/// Returns YES to each use that the host's default allows, and UNKNOWN to others and to uses of newer hosts. Call it
/// after refusing all uses that the component cannot serve.
inline Answer yes_to_known(const Query& query) {
  return query.use() > 0 && query.use() <= COHORT_USE_BY_HAND ? yes() : unknown();
}

/// Returns YES to `others`, which UNKNOWN would refuse, and yes_to_known(query) to all other uses.
inline Answer yes_to_known(const Query& query, std::initializer_list<int32_t> others) {
  return std::find(others.begin(), others.end(), query.use()) == others.end() ? yes_to_known(query) : yes();
}

namespace detail {

template <Answer (*Supports)(const Query&)>
void answer(const cohort_host*, cohort_query* query) noexcept {
  Answer answer;
  try {
    answer = Supports(Query(*query));
  } catch (...) {
    answer = no("its supports() throws an exception", "ask its authors");
  }
  query->answer = answer.answer;
  query->why = answer.why;
  query->fix = answer.fix;
}

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk
