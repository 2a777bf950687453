// Whatever the file that --config names: its options are taken, and --print-config writes a file that gives the same
// ones; or it is refused.
#include <cohort/host/options.hpp>

#include "fuzz.hpp"

namespace {

using namespace cohort;

std::string printed(const std::string& config) {
  const fuzz::InputFile file(config);
  return host::print_config(host::parse_options({"program", {"--config=" + file.path()}, {}, {}}, {}));
}

/// Without the comments that say where each value came from.
std::string values_of(const std::string& config) {
  std::string values;
  for (std::size_t begin = 0, end = 0; begin < config.size(); begin = end + 1) {
    end = std::min(config.find('\n', begin), config.size());
    const std::string line = config.substr(begin, end - begin);
    values += line.substr(0, line.rfind("  # ")) + "\n";
  }
  return values;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  std::string once;
  if (!fuzz::accepts<UserError>([&] { once = printed(text); })) return 0;
  fuzz::require(values_of(printed(once)) == values_of(once), "changed by being printed:\n" + once);
  return 0;
}
