#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "options/sources.hpp"

namespace cohort::host {
namespace {

constexpr std::size_t kHelpColumn = 34;

/// "--max_steps=3" -> "--max-steps" "3": so `_` is as good as `-`, and "--name=" gives an empty value.
std::vector<std::string> normalised(const std::vector<std::string>& arguments, const FlagTable& table) {
  std::vector<std::string> result;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    const Flag* flag = argument.starts_with("--") ? table.find(argument.substr(2, equals - 2)) : nullptr;
    if (flag == nullptr) {
      result.push_back(argument);
      continue;
    }
    if (equals == std::string::npos) {
      result.push_back("--" + flag->name);
    } else if (flag->arity == Arity::kOptional) {
      result.push_back("--" + flag->name + argument.substr(equals));
    } else {
      result.push_back("--" + flag->name);
      result.push_back(argument.substr(equals + 1));
    }
  }
  return result;
}

CLI::Option* add(CLI::App& app, const Flag& flag, const Options& code) {
  const auto fallback = flag.print(code);
  const bool says_something = fallback && *fallback != "false" && *fallback != "\"\"";
  const std::string shown = says_something ? " (default: " + *fallback + ")" : "";
  CLI::Option* option = app.add_option(
      "--" + flag.name, [](const CLI::results_t&) { return true; }, flag.help + shown);
  option->group(flag.group)->type_name(flag.value);
  option->expected(flag.arity == Arity::kOptional ? 0 : 1, 1);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  option->allow_extra_args(false);  // else CLI11 takes "[0,1]" apart
  return option;
}

[[noreturn]] void refuse_extra(const std::string& extra, const FlagTable& table) {
  if (!extra.starts_with('-')) {
    throw UserError("argument " + in_quotes(extra) + " belongs to no option; options begin with --");
  }
  const std::string name = extra.substr(0, extra.find('='));
  throw UserError("option " + in_quotes(name) + " is unknown" +
                  table.suggestion(name.substr(std::min(name.find_first_not_of('-'), name.size()))));
}

[[noreturn]] void refuse_twice(const Flag& flag, const std::vector<std::string>& values) {
  throw UserError("option '--" + flag.name + "' is given " + (values.size() == 2 ? "twice" : "several times") +
                  ", as " + in_quotes(values.front()) + " and " + in_quotes(values.back()) + "; keep one of them");
}

}  // namespace

std::vector<Assignment> read_command_line(const OptionSources& sources, const FlagTable& table, const Options& code) {
  CLI::App app("", sources.program);
  app.set_help_flag();
  app.allow_extras();
  app.get_formatter()->column_width(kHelpColumn);
  app.footer(
      "Every option can also be given as a variable COHORT_<OPTION>, or in a file with --config.\n"
      "The command `cohort strategies` compares the strategies, and `cohort plugins list` shows what is installed.");
  std::vector<std::pair<const Flag*, CLI::Option*>> options;
  for (const Flag& flag : table.flags()) options.emplace_back(&flag, add(app, flag, code));
  app.set_help_flag("-h,--help", "print this text and end")->group(table.flags().back().group);

  std::vector<std::string> arguments = normalised(sources.arguments, table);
  const std::string last = arguments.empty() ? "" : arguments.back();
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    throw HelpRequested{app.help()};
  } catch (const CLI::ArgumentMismatch&) {
    throw UserError("option " + in_quotes(last) + " needs a value; --help shows which");
  } catch (const CLI::ParseError& error) {
    throw UserError(std::string("command line: ") + error.what() + "; --help lists the options");
  }
  if (const auto extras = app.remaining(); !extras.empty()) refuse_extra(extras.front(), table);

  std::vector<Assignment> assignments;
  for (const auto& [flag, option] : options) {
    if (option->count() == 0) continue;
    std::vector<std::string> values = option->results();
    if (flag->arity != Arity::kMany && values.size() > 1) refuse_twice(*flag, values);
    if (flag->arity == Arity::kOptional && values.front().empty()) values = {flag->implied};
    assignments.push_back({flag, std::move(values), "--" + flag->name});
  }
  return assignments;
}

}  // namespace cohort::host
