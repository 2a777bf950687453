// A free layer that cuts the model where the test says, or does what the host has to refuse, as `does` says.
#include <cstring>
#include <sstream>
#include <string>

#include <cohort/sdk/parts.hpp>

namespace {

namespace sdk = cohort::sdk;

class Parts : public sdk::StrategyInParts<Parts> {
 public:
  void create(const sdk::Options& options) {
    first_ = options.text("first");
    does_ = options.text("does");
  }

  void plan(const cohort_job& job, cohort_plan& plan) {
    below().plan(job, plan);
    plan.processes_per_node = 1;
    num_parts_ = does_ == "none" ? 0 : static_cast<uint32_t>(job.num_devices);
  }
  uint32_t num_parts() const { return num_parts_; }
  bool runs_forward_first() const { return does_ == "forward_first"; }

  void cut(const cohort_cut_args& args) const {
    if (does_ == "tell") throw sdk::invalid_argument(text_of(args));
    std::istringstream first(first_);
    for (uint32_t part = 0; part < args.num_parts; ++part) {
      first >> args.first_units[part];
      args.in_flight[part] = args.num_parts - part;
    }
  }

  const void* get_extension(const char* id) {
    const void* const found = StrategyInParts::get_extension(id);
    if (std::strcmp(id, COHORT_PARTS_ID) != 0 || does_.rfind("table_", 0) != 0) return found;
    broken_ = *static_cast<const cohort_parts_1*>(found);
    if (does_ == "table_short") broken_.struct_size = 8;
    if (does_ == "table_flags") broken_.flags = 0x40000000u;
    if (does_ == "table_reserved") broken_.reserved0 = 1;
    if (does_ == "table_empty") broken_.cut = nullptr;
    return &broken_;
  }

 private:
  static std::string text_of(const cohort_cut_args& args) {
    std::ostringstream text;
    for (uint64_t i = 0; i < args.num_units; ++i) {
      const cohort_unit& unit = args.units[i];
      text << unit.name << ' ' << unit.seconds << ' ' << unit.weight_bytes << ' ' << unit.kept_bytes << ' '
           << unit.crossing_bytes << ' ' << unit.transient_bytes << ' ' << unit.flags << ", ";
    }
    for (uint32_t part = 0; part < args.num_parts; ++part) text << "limit " << args.limits[part] << ", ";
    text << args.num_pieces << " pieces";
    return text.str();
  }

  std::string first_, does_;
  uint32_t num_parts_ = 0;
  cohort_parts_1 broken_{};
};

constexpr cohort_option kOptions[] = {
    sdk::option("first", "string", "0 1", "the first unit of each part"),
    sdk::option("does", "string", "", "what it does instead"),
};
constexpr cohort_component kParts = sdk::strategy<Parts>("parts", "cuts a model").inherits("*").options(kOptions);

}  // namespace

COHORT_SDK_PLUGIN("org.example.parts", "1.0.0", "Example", "MIT", kParts)
