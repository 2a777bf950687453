// Ends an agreement that has failed, so that all ranks leave together and with the same message.
#pragma once

#include <string>
#include <vector>

#include <cohort/host/store.hpp>

namespace cohort::host {

/// Returns the value that rank 0 writes under `key`. Throws PeerFailed if rank 0 writes none within twice the timeout.
std::string published_by_rank0(const Agreement& agreement, const std::string& topic, const std::string& key);

/// Counts this rank under `key`. Rank 0, which usually serves the store, then waits until `readers` ranks are counted,
/// but at most for the grace time; other ranks return at once.
void leave_together(const Agreement& agreement, const std::string& key, int readers);

/// Throws PeerFailed with the missing ranks ("1, 3"), after leave_together with all ranks that are not missing.
[[noreturn]] void throw_missing(const Agreement& agreement, const std::string& topic, const std::string& ranks,
                                const std::string& key);

/// Returns the ranks as text: "1, 3".
std::string join(const std::vector<int>& ranks);

}  // namespace cohort::host
