#include <cohort/value.hpp>

#include <algorithm>

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

Value::List items_of(const c10::ArrayRef<c10::IValue> elements) {
  Value::List items;
  items.reserve(elements.size());
  for (const auto& element : elements) items.push_back(Value::from_ivalue(element));
  return items;
}

}  // namespace

Value Value::from_ivalue(const c10::IValue& ivalue) {
  if (ivalue.isNone()) return {};
  if (ivalue.isTensor()) return Value(ivalue.toTensor());
  if (ivalue.isTuple()) return Value(items_of(ivalue.toTupleRef().elements()));
  if (ivalue.isTensorList() || ivalue.isList()) return Value(items_of(ivalue.toListRef()));
  if (!ivalue.isGenericDict()) {
    throw UserError("a value of type " + ivalue.tagKind() +
                    " cannot be a batch or output; use tensors, lists and dictionaries");
  }
  Map entries;
  for (const auto& entry : ivalue.toGenericDict()) {
    if (!entry.key().isString()) throw UserError("a dictionary in a batch or output must have strings as keys");
    entries.emplace_back(entry.key().toStringRef(), from_ivalue(entry.value()));
  }
  return Value(std::move(entries));
}

c10::IValue Value::to_ivalue() const {
  if (empty()) return {};
  if (is_tensor()) return tensor();
  if (is_list()) {
    std::vector<c10::IValue> elements;
    elements.reserve(size());
    for (const auto& item : items()) elements.push_back(item.to_ivalue());
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  c10::impl::GenericDict dictionary(c10::StringType::get(), c10::AnyType::get());
  for (const auto& [key, value] : entries()) dictionary.insert(key, value.to_ivalue());
  return dictionary;
}

const at::Tensor& Value::tensor() const& {
  if (const auto* held = std::get_if<at::Tensor>(&held_)) return *held;
  throw UserError("a tensor was expected here, but the value is a " + kind() + "; take an element of it with []");
}

const Value::List& Value::items() const& {
  if (const auto* held = std::get_if<List>(&held_)) return *held;
  throw UserError("a list was expected here, but the value is a " + kind());
}

const Value::Map& Value::entries() const& {
  if (const auto* held = std::get_if<Map>(&held_)) return *held;
  throw UserError("a map was expected here, but the value is a " + kind());
}

size_t Value::size() const {
  if (const auto* list = std::get_if<List>(&held_)) return list->size();
  if (const auto* map = std::get_if<Map>(&held_)) return map->size();
  return 0;
}

const Value& Value::at(size_t index) const {
  if (index >= size()) {
    throw UserError("element " + std::to_string(index) + " of a batch or output was asked for, but the value is a " +
                    kind());
  }
  if (const auto* list = std::get_if<List>(&held_)) return (*list)[index];
  return std::get<Map>(held_)[index].second;
}

Element Value::operator[](size_t index) const {
  return at(index);
}

Element Value::operator[](std::string_view key) const {
  if (const Value* found = find(key)) return *found;
  std::string message =
      "element \"" + std::string(key) + "\" of a batch or output was asked for, but the value is a " + kind();
  if (is_map()) {
    message += " with the keys";
    for (const auto& entry : entries()) message += " \"" + entry.first + "\"";
  }
  throw UserError(message);
}

void Value::check_keys() const {
  const Map& map = entries();
  // A set would cost an allocation for each key of each sample.
  for (auto entry = map.begin(); entry != map.end(); ++entry) {
    const std::string& key = entry->first;
    if (std::none_of(map.begin(), entry, [&](const auto& earlier) { return earlier.first == key; })) continue;
    throw UserError("a batch or output has two elements with the key " + host::in_quotes(key) +
                    "; give each a key of its own");
  }
}

void Value::check_pair() const {
  if (size() == 2) return;
  throw UserError("a batch or output was taken apart into two, but the value is a " + kind() +
                  "; take its elements with []");
}

const Value* Value::find(std::string_view key) const& {
  if (const auto* map = std::get_if<Map>(&held_)) {
    for (const auto& entry : *map) {
      if (entry.first == key) return &entry.second;
    }
  }
  return nullptr;
}

namespace {

/// Returns dimension 0 of all tensors that have one, or `known` (-1: none) if none has. Throws UserError if they
/// differ.
int64_t common_dimension(const Value& value, int64_t known) {
  if (value.is_tensor()) {
    if (!value.tensor().defined() || value.tensor().dim() == 0) return known;
    const int64_t own = value.tensor().size(0);
    if (known < 0 || known == own) return own;
    throw UserError("a batch has tensors with " + std::to_string(known) + " and with " + std::to_string(own) +
                    " rows, so its number of samples is not known; say it where the batch is made: batch.samples(N)");
  }
  for (size_t i = 0; i < value.size(); ++i) known = common_dimension(value[i], known);
  return known;
}

}  // namespace

int64_t Value::batch_size() const {
  if (samples_) return samples_->count;
  const int64_t found = common_dimension(*this, -1);
  return found >= 0 ? found : 1;
}

Value& Value::samples(int64_t count) & {
  if (count < 0) throw UserError("batch.samples(" + std::to_string(count) + "): a batch has 0 samples or more");
  samples_ = std::make_shared<const Samples>(Samples{.count = count});
  return *this;
}

Value& Value::kept_samples(std::vector<int64_t> positions) & {
  samples_ = std::make_shared<const Samples>(
      Samples{.count = std::ssize(positions), .has_kept = true, .kept = std::move(positions)});
  return *this;
}

Value Value::with_samples_of(const Value& other) const {
  Value same = *this;
  if (!same.samples_) same.samples_ = other.samples_;
  return same;
}

Value Value::map_tensors(const std::function<at::Tensor(const at::Tensor&)>& change) const {
  return mapped(change).with_samples_of(*this);
}

Value Value::mapped(const std::function<at::Tensor(const at::Tensor&)>& change) const {
  if (is_tensor()) return tensor().defined() ? Value(change(tensor())) : *this;
  if (is_list()) {
    List changed;
    changed.reserve(size());
    for (const auto& item : items()) changed.push_back(item.mapped(change));
    return Value(std::move(changed));
  }
  if (is_map()) {
    Map changed;
    changed.reserve(size());
    for (const auto& [key, value] : entries()) changed.emplace_back(key, value.mapped(change));
    return Value(std::move(changed));
  }
  return {};
}

Value Value::to(c10::Device device) const {
  return map_tensors([device](const at::Tensor& tensor) { return tensor.to(device); });
}

std::string Value::kind() const {
  if (is_tensor()) return "tensor";
  if (is_list()) return "list of " + std::to_string(size());
  if (is_map()) return "map of " + std::to_string(size());
  return "value that holds nothing";
}

}  // namespace cohort
