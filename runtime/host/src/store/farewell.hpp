// How ranks end an agreement that has failed: together, and with the same sentence.
#pragma once

#include <string>
#include <vector>

#include <cohort/host/store.hpp>

namespace cohort::host {

/// Returns what rank 0 writes under `key`. Throws PeerFailed where it writes nothing in time.
std::string published_by_rank0(const Agreement& agreement, const std::string& topic, const std::string& key);

/// Rank 0 usually serves the store: it returns after so many ranks have called this, or after some seconds.
void leave_together(const Agreement& agreement, const std::string& key, int readers);

/// Throws PeerFailed that names the missing ("1, 3") among `world_size` ranks, once all others leave too.
[[noreturn]] void throw_missing(const Agreement& agreement, const std::string& topic, const std::string& ranks,
                                const std::string& key);

/// "1, 3"
std::string join(const std::vector<int>& ranks);

}  // namespace cohort::host
