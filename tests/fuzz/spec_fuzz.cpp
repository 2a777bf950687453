// Whatever the text: parse_spec gives a spec that survives being written and read again, or throws UserError.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <cohort/host/error.hpp>
#include <cohort/host/spec.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using cohort::host::parse_spec;
  using cohort::host::to_string;
  const std::string text(data, data + size);
  cohort::Spec spec;
  try {
    spec = parse_spec(text, "--strategy");
  } catch (const cohort::UserError&) {
    return 0;
  }
  if (!cohort::host::is_plugin_name(spec.name)) throw std::logic_error("parsed a name that is none: " + spec.name);
  if (parse_spec(to_string(spec), "--strategy") != spec) throw std::logic_error("changed by being written: " + text);
  return 0;
}
