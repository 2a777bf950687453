// What the tests of the launcher run on a host.
#include <cohort/launch/nodes.hpp>

int main() {
  return cohort::launch::serve_node();
}
