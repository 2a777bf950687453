// How ranks tell each other who they are when they meet, and what they know when they fail; as JSON.
//
// A text of another rank is hostile until read.
#pragma once

#include <optional>
#include <string>

#include "failure/verdict.hpp"

namespace cohort {

/// Describes this process.
std::string introduction();
/// The rank that introduced itself so. Throws PeerFailed for a text that no rank of this program wrote.
Peer peer_from(int rank, const std::string& introduction);

std::string to_text(const LastWords& words);
/// Nothing where a text is no such thing: whoever wrote it is not one of us.
std::optional<LastWords> last_words_from(const std::string& text);

std::string to_text(const Verdict& verdict);
/// Nothing where a text is no such thing.
std::optional<Verdict> verdict_from(const std::string& text);

}  // namespace cohort
