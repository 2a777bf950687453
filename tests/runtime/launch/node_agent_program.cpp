// What the tests of the launcher run on a host.
#include <cohort/launch/hosts.hpp>

int main() {
  return cohort::host::serve_node();
}
