#include "value/flat_value.hpp"

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

// A name is a sequence of steps from the whole value to the tensor, each ended by kEnd: '[' and a position in a list,
// or
// '.' and a key of a map.
constexpr char kEnd = '\x1f';

void flatten(const Value& value, const std::string& name, NamedTensors& flat) {
  if (value.is_tensor()) flat.emplace_back(name, value.tensor());
  if (value.is_list()) {
    for (size_t i = 0; i < value.items().size(); ++i) {
      flatten(value.items()[i], name + "[" + std::to_string(i) + kEnd, flat);
    }
  }
  if (!value.is_map()) return;
  for (const auto& [key, item] : value.entries()) {
    if (key.find(kEnd) != std::string::npos) {
      throw UserError("the key " + host::in_quotes(key) + " of an output holds a separator; choose another one");
    }
    flatten(item, name + "." + key + kEnd, flat);
  }
}

}  // namespace

NamedTensors flat_value(const Value& value) {
  NamedTensors flat;
  flatten(value, "", flat);
  return flat;
}

Value value_of(const NamedTensors& flat) {
  if (flat.empty()) return {};
  if (flat.front().first.empty()) return flat.front().second;
  std::vector<std::pair<std::string, NamedTensors>> items;  // by first step, in the order of their appearance
  for (const auto& [name, tensor] : flat) {
    const size_t end = name.find(kEnd);
    const std::string step = name.substr(0, end);
    if (items.empty() || items.back().first != step) items.emplace_back(step, NamedTensors());
    items.back().second.emplace_back(name.substr(end + 1), tensor);
  }
  if (items.front().first[0] == '[') {
    Value::List list;
    for (const auto& item : items) list.push_back(value_of(item.second));
    return Value::list(std::move(list));
  }
  Value::Map map;
  for (const auto& [step, rest] : items) map.emplace_back(step.substr(1), value_of(rest));
  return Value::map(std::move(map));
}

}  // namespace cohort
