// How ranks tell each other who they are when they meet, what they wait in, and what they know when they fail; as JSON.
//
// Another rank's text may be hostile, so a reader takes only what these functions write, and joins its lines.
#pragma once

#include <optional>
#include <string>

#include <cohort/diagnosis/deadlock.hpp>
#include <cohort/diagnosis/verdict.hpp>
#include <cohort/host/flight_recorder.hpp>

namespace cohort {

/// Describes this process.
std::string introduction();
/// Returns the rank of this introduction. Throws PeerFailed for a text that no rank of this program wrote.
Peer peer_from(int rank, const std::string& introduction);

/// Returns the report of a rank in which all threads wait. It holds no times, so that it changes only when the rank
/// moves.
std::string to_text(const host::FlightRecorder::Standing& standing);
/// Reads such a report. Returns nothing for any other text.
std::optional<Waiting> waiting_from(const std::string& text);

std::string to_text(const LastWords& words);
/// Returns nothing for a text that to_text did not write, because no rank of this program wrote it.
std::optional<LastWords> last_words_from(const std::string& text);

std::string to_text(const Verdict& verdict);
/// Returns nothing for a text that to_text did not write.
std::optional<Verdict> verdict_from(const std::string& text);

}  // namespace cohort
