#include "environment/interface.hpp"

#include <cstdlib>

namespace cohort::gloo {

std::string interface_of_environment() {
  const char* const names = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string text = names ? names : "";
  return text.substr(0, text.find(','));
}

}  // namespace cohort::gloo
