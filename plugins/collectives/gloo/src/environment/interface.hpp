// The variable by which users of Gloo in PyTorch name a network interface.
#pragma once

#include <string>

namespace cohort::gloo {

/// Returns what GLOO_SOCKET_IFNAME names, of several the first; "" if it is not set.
std::string interface_of_environment();

}  // namespace cohort::gloo
