// The sockets that Gloo listens on for ranks, which it leaves open for as long as it lives.
//
// It takes every connection that comes, and keeps it: strangers could go on until the process has no descriptors left,
// which ends it. So nobody is let in any more once all ranks are connected.
#pragma once

#include <functional>
#include <vector>

namespace cohort::gloo {

/// Calls `open` and returns the TCP sockets that listen since. One thread at a time: ranks may be threads of a process.
std::vector<int> sockets_opened_by(const std::function<void()>& open);

/// Lets nobody connect to these sockets any more. Connections that stand go on.
void shut(const std::vector<int>& sockets);

}  // namespace cohort::gloo
