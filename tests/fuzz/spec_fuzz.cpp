// Whatever the text: parse_spec gives a spec that survives being written and read again, or refuses it.
#include <cohort/host/spec.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace cohort;
  const std::string text(data, data + size);
  Spec spec;
  if (!fuzz::accepts<UserError>([&] { spec = host::parse_spec(text, "--strategy"); })) return 0;
  fuzz::require(host::is_plugin_name(spec.name), "parsed a name that is none: " + spec.name);
  fuzz::require(host::parse_spec(host::to_string(spec), "--strategy") == spec, "changed by being written: " + text);
  return 0;
}
