// The strategy's cut of the model: ranks ask with the same arguments, and nobody trusts the answer.
#include <algorithm>
#include <limits>
#include <sstream>

#include <cohort/host/connected_rank.hpp>
#include <cohort/host/crash_report.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "given/given_args.hpp"
#include "parts_table.hpp"
#include "rank/rank_state.hpp"
#include "selection/wording.hpp"

namespace cohort::host {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The numbers of a unit, which ranks take from rank 0.
struct UnitFigures {
  double seconds;
  uint64_t weight_bytes, kept_bytes, crossing_bytes, transient_bytes;
};

void agree_on_units(RankState& state, std::span<const ModelUnit> units, uint32_t num_pieces) {
  if (!state.is_distributed()) return;
  std::ostringstream text;
  for (const ModelUnit& unit : units) text << unit.name << '\n';
  text << num_pieces << " pieces";
  state.agree_on("units of the model", text.str(), "ranks run different units of the model:");
}

void take_figures_of_rank0(RankState& state, std::vector<ModelUnit>& units) {
  if (!state.is_distributed() || units.empty()) return;
  std::vector<UnitFigures> figures;
  for (const ModelUnit& unit : units) {
    figures.push_back({unit.seconds, unit.weight_bytes, unit.kept_bytes, unit.crossing_bytes, unit.transient_bytes});
  }
  state.comms.broadcast(figures.data(), figures.size() * sizeof figures.front(), 0, "rank 0's figures of the units");
  for (size_t i = 0; i < units.size(); ++i) {
    units[i].seconds = figures[i].seconds;
    units[i].weight_bytes = figures[i].weight_bytes;
    units[i].kept_bytes = figures[i].kept_bytes;
    units[i].crossing_bytes = figures[i].crossing_bytes;
    units[i].transient_bytes = figures[i].transient_bytes;
  }
}

/// Takes the smallest limit of each device, and lets a unit stay if it does on any rank.
void take_strictest(ConnectedRank& rank, std::vector<ModelUnit>& units, std::vector<uint64_t>& limits) {
  std::vector<double> least;
  for (const uint64_t limit : limits) least.push_back(limit == 0 ? kNoLimit : static_cast<double>(limit));
  for (const ModelUnit& unit : units) least.push_back(unit.stays ? 0 : 1);
  rank.all_reduce(least, COHORT_REDUCE_MIN);
  for (size_t i = 0; i < limits.size(); ++i) limits[i] = least[i] == kNoLimit ? 0 : static_cast<uint64_t>(least[i]);
  for (size_t i = 0; i < units.size(); ++i) units[i].stays = least[limits.size() + i] == 0;
}

void check_number(std::span<const ModelUnit> units, size_t num_parts) {
  size_t most = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    if (i == 0 || !units[i].stays) ++most;
  }
  if (most >= num_parts) return;
  throw UserError("the model has " + counted(static_cast<int>(units.size()), "unit") + " and can be cut into " +
                  counted(static_cast<int>(most), "part") + " at most, but each process has " +
                  std::to_string(num_parts) + " devices; choose fewer --devices");
}

void check_first_units(std::span<const uint32_t> first_units, std::span<const ModelUnit> units,
                       const std::string& strategy) {
  for (size_t part = 0; part < first_units.size(); ++part) {
    const uint32_t first = first_units[part];
    const auto refuse = [&](const std::string& problem) {
      throw UserError(strategy + " begins part " + std::to_string(part) + " of " + std::to_string(first_units.size()) +
                      " at unit " + std::to_string(first) + ", " + problem + "; tell its author");
    };
    if (part == 0 && first != 0) refuse("but the first part begins at unit 0");
    if (first >= units.size()) refuse("but the model has " + std::to_string(units.size()) + " units");
    if (part > 0 && first <= first_units[part - 1]) refuse("but the part before it is then empty");
    if (part > 0 && units[first].stays) refuse("but no part can begin at " + in_quotes(units[first].name));
  }
}

PartsCut ask_for_cut(RankState& state, std::span<const ModelUnit> units, std::span<const uint64_t> limits,
                     uint32_t num_pieces) {
  const std::string strategy = "strategy " + in_quotes(state.setup.selection.strategy.name);
  const cohort_parts_1* const table = parts_table(state.strategy());
  if (!table) throw UserError(strategy + " does not cut a model into parts; choose another --strategy");
  std::vector<cohort_unit> asked;
  for (const ModelUnit& unit : units) {
    asked.push_back({unit.name.c_str(), unit.seconds, unit.weight_bytes, unit.kept_bytes, unit.crossing_bytes,
                     unit.transient_bytes, unit.stays ? COHORT_UNIT_STAYS : 0u, 0});
  }
  PartsCut cut{std::vector<uint32_t>(limits.size()), std::vector<uint32_t>(limits.size())};
  cohort_cut_args args{};
  args.struct_size = sizeof args;
  args.num_parts = static_cast<uint32_t>(limits.size());
  args.units = asked.data();
  args.num_units = asked.size();
  args.limits = limits.data();
  args.num_pieces = num_pieces;
  args.first_units = cut.first_units.data();
  args.in_flight = cut.in_flight.data();
  const PluginCall call(state.setup.log, strategy, "cut");
  state.host.check(table->cut(table->data, &args), strategy + ", cut");
  check_first_units(cut.first_units, units, strategy);
  return cut;
}

}  // namespace

const cohort_parts_1* parts_table(cohort_strategy* top) {
  return given(static_cast<const cohort_parts_1*>(top->vt->get_extension(top, COHORT_PARTS_ID)));
}

PartsCut ConnectedRank::cut_into_parts(std::span<const ModelUnit> units, std::span<const uint64_t> limits,
                                       uint32_t num_pieces) {
  std::vector<ModelUnit> own_units(units.begin(), units.end());
  std::vector<uint64_t> own_limits(limits.begin(), limits.end());
  own_limits.resize(static_cast<size_t>(state_->setup.selection.parts));
  agree_on_units(*state_, own_units, num_pieces);
  take_figures_of_rank0(*state_, own_units);
  take_strictest(*this, own_units, own_limits);
  check_number(own_units, own_limits.size());
  return ask_for_cut(*state_, own_units, own_limits, num_pieces);
}

bool ConnectedRank::runs_forward_first() const {
  const cohort_parts_1* const table = parts_table(state_->strategy());
  return table && (table->flags & COHORT_PARTS_FORWARD_FIRST);
}

}  // namespace cohort::host
