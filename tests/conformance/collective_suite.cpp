#include "collective_suite.hpp"

#include <cstdio>
#include <string_view>

namespace cohort::conformance {

namespace {

std::string& mutable_plugin_file() {
  static std::string file;
  return file;
}

}  // namespace

const std::string& plugin_file() {
  return mutable_plugin_file();
}

const cohort_component& collective() {
  return test::component_of(test::open_plugin(plugin_file()), COHORT_KIND_COLLECTIVE);
}

const cohort_collective_vt& table() {
  return *static_cast<const cohort_collective_vt*>(collective().vtable);
}

void on_ranks(int size, const std::function<void(test::RankComm&)>& body, std::chrono::nanoseconds timeout) {
  test::MemoryStore store;
  test::run_as_threads(size, [&](int rank) {
    test::RankComm comm(collective(), store.handle(), rank, size, timeout);
    body(comm);
  });
}

}  // namespace cohort::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFlag = "--plugin=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kFlag.size()) == kFlag) {
      cohort::conformance::mutable_plugin_file() = argument.substr(kFlag.size());
    }
  }
  if (cohort::conformance::plugin_file().empty()) {
    std::fputs("usage: collective_suite --plugin=FILE\n", stderr);
    return 2;
  }
  return RUN_ALL_TESTS();
}
