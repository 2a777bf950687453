// A collective of one rank that says in the log what it closes. It is built under three names: one moves device memory
// only, one fails in connect, and one fails in split.
#include <memory>
#include <string>

#include <cohort/sdk/collective.hpp>

namespace {

namespace sdk = cohort::sdk;

constexpr bool is_called(const char* name) {
  return std::string_view(COLLECTIVE) == name;
}

class OneRankComm : public sdk::Communicator<OneRankComm> {
 public:
  explicit OneRankComm(sdk::Log log) : log_(log) {}
  ~OneRankComm() { log_.info(COLLECTIVE " closes a communicator"); }

  int rank() const { return 0; }
  int size() const { return 1; }
  void exchange(sdk::Span<const cohort_message>, const cohort_stream&) {}
  std::unique_ptr<OneRankComm> split(int32_t color, int32_t) {
    if (is_called("no_split")) throw sdk::Error(COHORT_UNAVAILABLE, "it cannot split");
    return color < 0 ? nullptr : std::make_unique<OneRankComm>(log_);
  }

 private:
  sdk::Log log_;
};

struct OneRank : sdk::Collective<OneRank, OneRankComm> {
  std::unique_ptr<OneRankComm> connect(const cohort_connect_args&) {
    if (is_called("no_connect")) throw sdk::Error(COHORT_UNAVAILABLE, "it cannot connect");
    return std::make_unique<OneRankComm>(log());
  }
};

sdk::Answer supports(const sdk::Query& query) {
  const bool is_cpu = query.use() == COHORT_USE_DEVICE_TYPE && query.value() == COHORT_DEVICE_CPU;
  if (is_cpu && is_called("device_only")) return sdk::no("it moves device memory only", "choose another one");
  return sdk::yes_to_known(query);
}

constexpr cohort_component kOneRank = sdk::collective<OneRank>(COLLECTIVE, "one rank alone").supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.example.one_rank", "1.0.0", "cohort", "Apache-2.0", kOneRank)
