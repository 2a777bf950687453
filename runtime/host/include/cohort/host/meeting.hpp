// The first thing that ranks do together: they find out whether they are ranks of one job, before anything depends on
// it.
//
// Whoever counts the ranks, the nodes or the ranks of a node differently, belongs to another run, or has the number of
// a rank that is there already, is found by what each rank writes about itself. Collective; [main] thread.
#pragma once

#include <string>

#include <cohort/host/environment.hpp>
#include <cohort/host/store.hpp>

namespace cohort::host {

struct Meeting {
  Agreement agreement;       ///< its store holds keys of this run, or of this job alone
  const Topology& topology;  ///< what this rank was told
  bool store_is_fresh;       ///< no other job or attempt has ever written to it, so that a number is taken once
  std::chrono::nanoseconds for_latecomers{std::chrono::seconds(4)};  ///< they shall hear as well what is wrong
};

/// Returns when all ranks are there, count alike, and give the same text: true; false where texts differ, so that
/// throw_difference can tell how. Throws the same kind of error on every rank that has come: UserError that says who
/// counts what, or PeerFailed that names the missing ranks at the deadline.
bool meet(const Meeting& meeting, const std::string& topic, std::string_view text);

}  // namespace cohort::host
