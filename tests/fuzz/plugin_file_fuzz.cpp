// Whatever a plugin's file holds: it is a whole shared library for this machine, or refused before it is opened.
#include "fuzz.hpp"
#include "plugin_host/elf_file.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace cohort;
  const fuzz::InputFile file(std::string(data, data + size));
  const std::string problem = host::elf_problem(file.path());
  if (!problem.empty()) fuzz::require_sentence(problem);
  return 0;
}
