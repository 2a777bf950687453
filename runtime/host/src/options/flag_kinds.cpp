#include "options/flag_kinds.hpp"

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host::flags {

Flag switched(const char* group, const char* name, const char* help, bool Options::*member) {
  return optional_value(one(group, name, "", help, member, parse_bool, [](bool value) { return literal(value); }),
                        "true");
}

Flag limit(const char* name, const char* help, BatchLimit Options::*member) {
  const auto parse = [](Given given) { return parse_batch_limit(given, 0); };
  return one(kLoop, name, "N|FRACTION", help, member, parse, [](const BatchLimit& value) -> Printed {
    const bool is_all = !value.count && !value.fraction;
    return is_all ? std::nullopt : Printed(literal(value));
  });
}

std::filesystem::path parse_path(Given given) {
  if (given.text.empty()) throw UserError(std::string(given.where) + ": the path is empty; give a file or a folder");
  if (on_one_line(given.text) != given.text) {  // paths appear in messages and logs
    throw UserError(std::string(given.where) + ": the path " + in_quotes(given.text) +
                    " holds a control character; choose another name");
  }
  return std::filesystem::path(given.text);
}

Flag path(const char* group, const char* name, const char* value, const char* help,
          std::filesystem::path Options::*member) {
  return one(group, name, value, help, member, parse_path, [](const std::filesystem::path& path) {
    return path.empty() ? std::nullopt : Printed(text_literal(path.native()));
  });
}

Flag paths(const char* name, const char* value, const char* help, std::vector<std::filesystem::path> Options::*member) {
  return many(kPlugins, name, value, help, member, parse_path, [](const auto& path) { return path.string(); });
}

Flag spec(const char* name, const char* help, std::optional<Spec> Options::*member) {
  return flag(
      kWhere, name, "SPEC", help,
      [=](Options& o, Given given) {
        o.*member = given.text == "auto" ? std::nullopt : std::optional<Spec>(parse_spec(given.text, given.where));
      },
      [=](const Options& o) -> Printed { return text_literal(o.*member ? to_string(*(o.*member)) : "auto"); });
}

Flag metric(const char* group, const char* name, const char* value, const char* help,
            std::optional<Spec> Options::*member) {
  const auto parse = from(parse_metric_spec);
  return one(group, name, value, help, member, parse, [](const Spec& spec) { return text_literal(to_string(spec)); });
}

std::string time_literal(std::chrono::nanoseconds time) {
  const bool whole = time % std::chrono::seconds(1) == std::chrono::nanoseconds(0);
  return text_literal(whole ? std::to_string(time / std::chrono::seconds(1)) + "s"
                            : std::to_string(time.count()) + "ns");
}

}  // namespace cohort::host::flags
