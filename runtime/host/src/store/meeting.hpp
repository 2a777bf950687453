// The first rendezvous of the ranks: they check that they belong to one job before anything depends on it.
//
// Each rank writes its place in the job into the store, and rank 0 compares these places. That finds a rank with
// another world size, number of nodes or number of ranks on its node, a rank of another run, and two processes with the
// same rank. A process that was started in place of one that has ended takes its rank over, on the same machine and
// until all ranks have come. Collective; [main] thread.
#pragma once

#include <string>

#include <cohort/host/environment.hpp>
#include <cohort/host/process_state.hpp>
#include <cohort/host/store.hpp>

namespace cohort::host {

struct Meeting {
  Agreement agreement;       ///< its store holds keys of this run, or of this job alone
  const Topology& topology;  ///< this rank's place in the job
  bool store_is_fresh;       ///< no other job or attempt has written to it, so two processes with one rank can be found
  /// How long rank 0 waits, after it has found a mistake, for ranks that are late, so that they get the message as
  /// well.
  std::chrono::nanoseconds for_latecomers{std::chrono::seconds(4)};
  ProcessId process = own_process();
};

/// Waits until all ranks have come and agree on their places in the job. Returns true if all give the same text and
/// false if the texts differ; throw_difference can then show the differences. Throws the same kind of error on every
/// rank that has come: UserError if the places do not fit together; PeerFailed with the missing ranks at the deadline,
/// or if a rank was started again and cannot take part any more.
bool meet(const Meeting& meeting, const std::string& topic, std::string_view text);

}  // namespace cohort::host
