// The program that the tests of the launcher run on a host.
#include <cohort/nodes/nodes.hpp>

int main() {
  return cohort::nodes::serve_node();
}
