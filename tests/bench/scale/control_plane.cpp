// Prints what the control plane of a job takes, as JSON: control_plane RANKS PLUGINS...
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "wide_job.hpp"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "control_plane RANKS PLUGINS...\n");
    return 2;
  }
  const cohort::test::WideJob job = cohort::test::run_wide_job(std::atoi(argv[1]), {argv + 2, argv + argc});
  const auto named = std::ranges::count_if(
      job.sentences, [](const std::string& sentence) { return sentence.find("no such file") != std::string::npos; });
  const auto print = [](const char* name, const cohort::test::Phase& phase) {
    std::printf("\"%s\": {\"seconds\": %.6f, \"requests\": %zu, \"bytes\": %zu}, ", name, phase.seconds,
                static_cast<std::size_t>(phase.traffic.requests), static_cast<std::size_t>(phase.traffic.bytes));
  };
  std::printf("{");
  print("start", job.start);
  print("agreement", job.agreement);
  print("votes", job.votes);
  print("failure", job.failure);
  std::printf("\"ranks_that_name_the_cause\": %td}\n", named);
}
