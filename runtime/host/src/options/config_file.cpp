#include <string>
#include <string_view>

#include <toml++/toml.h>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>

#include "options/sources.hpp"

namespace cohort::host {
namespace {

// Hundreds of times the length of a file that sets every option.
constexpr uint64_t kMostBytes = 4 << 20;

class ConfigFile {
 public:
  ConfigFile(const std::filesystem::path& file, const FlagTable& table) : file_(file), table_(table) {}

  FromFile read() {
    const toml::table root = parse();
    for (const auto& [key, node] : root) read_entry(std::string(key.str()), key.source(), node);
    return std::move(result_);
  }

 private:
  std::string place(const toml::source_region& source) const {
    return on_one_line(file_.string()) + ":" + std::to_string(source.begin.line);
  }

  std::string text() const {
    try {
      return read_text_file(file_, kMostBytes);
    } catch (const UserError& error) {
      throw UserError(std::string("--config: ") + error.what() + "; give a TOML file");
    }
  }

  toml::table parse() const {
    try {
      return toml::parse(text());
    } catch (const toml::parse_error& error) {
      std::string message = place(error.source()) + ": " + on_one_line(error.description());
      if (message.find("redefine") != std::string::npos) {
        message += "; beside a table [strategy.NAME] write the name as `name = \"...\"` in a table [strategy]";
      }
      throw UserError(message);
    }
  }

  void read_entry(const std::string& key, const toml::source_region& source, const toml::node& node) {
    if (is_plugin_kind(key) && node.is_table()) {
      read_kind(key, *node.as_table());
      return;
    }
    assign(key, source, node);
  }

  /// [strategy] with `name`, and [strategy.NAME] with options of that plugin.
  void read_kind(const std::string& kind, const toml::table& table) {
    for (const auto& [key, node] : table) {
      if (const toml::table* options = node.as_table()) {
        read_plugin(kind + "." + std::string(key.str()), *options);
      } else if (key.str() == "name") {
        assign(kind, key.source(), node);
      } else {
        throw UserError(place(key.source()) + ": " + in_quotes(key.str()) + " is unknown in [" + kind +
                        "]; options of a plugin stand in a table [" + kind + ".NAME]");
      }
    }
  }

  void read_plugin(const std::string& plugin, const toml::table& table) {
    auto& options = result_.plugin_options[plugin];
    for (const auto& [key, node] : table) options.emplace_back(key.str(), text_of(node, std::string(key.str())));
  }

  void assign(const std::string& key, const toml::source_region& source, const toml::node& node) {
    const Flag* flag = table_.find(key);
    if (flag == nullptr) {
      throw UserError(place(source) + ": the key " + in_quotes(key) + " is unknown" + table_.suggestion(key));
    }
    if (flag->name == "config") {
      throw UserError(place(source) + ": a configuration file cannot name another one; give --config or COHORT_CONFIG");
    }
    for (const Assignment& before : result_.assignments) {
      if (before.flag == flag) throw UserError(place(source) + ": " + in_quotes(key) + " is given twice; keep one");
    }
    Assignment assignment{flag, {}, place(source) + ": " + flag->name};
    const toml::array* array = node.as_array();
    if (flag->arity == Arity::kMany && array != nullptr) {
      for (const toml::node& item : *array) assignment.values.push_back(text_of(item, key));
    } else {
      assignment.values.push_back(text_of(node, key));
    }
    result_.assignments.push_back(std::move(assignment));
  }

  /// What would stand on the command line for this value.
  std::string text_of(const toml::node& node, const std::string& key) const {
    if (const auto* text = node.as_string()) {
      if (text->get().find('\0') == std::string::npos) return text->get();
      throw UserError(place(node.source()) + ": the text of " + in_quotes(key) + " holds a NUL byte; leave it out");
    }
    if (const auto* number = node.as_integer()) return std::to_string(number->get());
    if (const auto* number = node.as_floating_point()) return decimal_text(number->get());
    if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
    if (const auto* array = node.as_array()) {
      std::string items;
      for (const toml::node& item : *array) items += (items.empty() ? "" : ",") + text_of(item, key);
      return "[" + items + "]";
    }
    throw UserError(place(node.source()) + ": " + in_quotes(key) +
                    " cannot be a table or a date; give text or a number");
  }

  const std::filesystem::path& file_;
  const FlagTable& table_;
  FromFile result_;
};

}  // namespace

FromFile read_config_file(const std::filesystem::path& file, const FlagTable& table) {
  return ConfigFile(file, table).read();
}

}  // namespace cohort::host
