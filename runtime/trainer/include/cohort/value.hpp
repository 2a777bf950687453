// What goes into a step and comes out of it: a tensor, or a list or map of such values, nested.
//
//   auto [x, y] = batch;                            // a list of two
//   auto loss = cross_entropy(net->forward(batch["image"].flatten(1)), batch["label"]);
//   return {{"loss", loss}, {"logits", logits}};    // a map
//
// A value type: copies share the tensors. Reading from several threads is safe, changing is not.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

namespace c10 {
struct IValue;
}

namespace cohort {

class Element;

class Value {
 public:
  using List = std::vector<Value>;
  using Map = std::vector<std::pair<std::string, Value>>;  ///< in the order of insertion

  /// Holds nothing.
  Value() = default;
  Value(at::Tensor tensor) : held_(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  Value(List items) : held_(std::move(items)) {}          // NOLINT(google-explicit-constructor)
  /// Throws UserError for a key that is there twice.
  Value(Map items) : held_(std::move(items)) { check_keys(); }  // NOLINT(google-explicit-constructor)
  Value(std::initializer_list<Map::value_type> items) : Value(Map(items)) {}
  Value(const Element& element);                                     // NOLINT(google-explicit-constructor)
  static Value list(List items) { return Value(std::move(items)); }  // also for a list of one
  static Value map(Map items) { return Value(std::move(items)); }
  /// From tensors, lists, tuples and dictionaries with string keys. Throws UserError for any other kind.
  static Value from_ivalue(const c10::IValue& ivalue);
  /// Tensors, lists (as tuples, so that kinds may differ) and dictionaries.
  c10::IValue to_ivalue() const;

  bool empty() const { return std::holds_alternative<std::monostate>(held_); }
  bool is_tensor() const { return std::holds_alternative<at::Tensor>(held_); }
  bool is_list() const { return std::holds_alternative<List>(held_); }
  bool is_map() const { return std::holds_alternative<Map>(held_); }

  /// Each throws UserError that says what the value is instead. A temporary value, as batch[0] is one, gives what it
  /// holds away, so that `const auto& image = batch[0].tensor()` outlives it.
  const at::Tensor& tensor() const&;
  at::Tensor tensor() && { return std::as_const(*this).tensor(); }
  const List& items() const&;
  List items() && { return std::as_const(*this).items(); }
  const Map& entries() const&;
  Map entries() && { return std::as_const(*this).entries(); }
  operator at::Tensor() const { return tensor(); }  // NOLINT(google-explicit-constructor): forward(batch)

  /// Elements of a list or map; 0 otherwise.
  size_t size() const;
  /// Element of a list, or of a map by position. Throws UserError where there is none.
  Element operator[](size_t index) const;
  Element operator[](std::string_view key) const;
  /// Throws UserError unless this is a list or map of two.
  void check_pair() const;
  /// The element with this key, or null where the value is no map or has no such key.
  const Value* find(std::string_view key) const&;
  std::unique_ptr<const Value> find(std::string_view key) &&;

  /// Returns the number of samples of a batch as set by `samples`, which the loader of a dataset calls for each batch;
  /// else the size of dimension 0 of its tensors, or 1 if none has a dimension. Throws UserError if it is not set and
  /// the tensors differ in dimension 0.
  int64_t batch_size() const;
  /// Sets the number of samples of the batch, for a stream and for a dataset with whole batches as elements. Means,
  /// replicas, predictions and throughput count them. Throws UserError below 0.
  Value& samples(int64_t count) &;
  Value samples(int64_t count) && { return std::move(samples(count)); }
  /// Sets the positions, among the samples that collate was given, of the samples in the batch, in the batch's order.
  /// Predictions get the numbers of these samples.
  Value& kept_samples(std::vector<int64_t> positions) &;
  Value kept_samples(std::vector<int64_t> positions) && { return std::move(kept_samples(std::move(positions))); }
  /// Returns the positions that were set, or null.
  const std::vector<int64_t>* kept_samples() const& {
    return samples_ && samples_->has_kept ? &samples_->kept : nullptr;
  }
  const std::vector<int64_t>* kept_samples() && = delete;
  bool says_samples() const { return samples_ != nullptr; }
  /// Returns this batch with the samples that are set in the other one, unless it has its own.
  Value with_samples_of(const Value& other) const;
  /// Returns the same structure with every defined tensor replaced by what `change` returns for it.
  Value map_tensors(const std::function<at::Tensor(const at::Tensor&)>& change) const;
  /// The same structure with every tensor on `device`; tensors that are there already are shared.
  Value to(c10::Device device) const;
  /// "tensor", "list of 2", "map of 3" or "nothing"; for messages.
  std::string kind() const;

 private:
  struct Samples {
    int64_t count = 0;
    bool has_kept = false;
    std::vector<int64_t> kept{};
  };

  void check_keys() const;
  const Value& at(size_t index) const;
  Value mapped(const std::function<at::Tensor(const at::Tensor&)>& change) const;

  std::variant<std::monostate, at::Tensor, List, Map> held_;
  std::shared_ptr<const Samples> samples_;  // null: nobody has said
};

/// An element of a list or map: its tensor, with all that a tensor can do, if it holds one (else an undefined tensor);
/// and the value in any case, so that elements of elements are reached. batch[0][3] is the row 3 of a tensor, and
/// `batch[0][3] = row` writes into it, as with tensors.
class Element : public at::Tensor, public Value {
 public:
  Element(const Value& value)  // NOLINT(google-explicit-constructor)
      : at::Tensor(value.is_tensor() ? value.tensor() : at::Tensor()), Value(value) {}
  Element(const at::Tensor& tensor) : at::Tensor(tensor), Value(tensor) {}  // NOLINT(google-explicit-constructor)

  Element(const Element&) = default;
  Element(Element&&) = default;
  ~Element() = default;
  Element& operator=(const Element&) & = default;
  Element& operator=(Element&&) & = default;
  /// Write into the memory of the tensor. Throws UserError for a list or map.
  void operator=(const Element& other) && { Value::tensor().copy_(other.tensor()); }
  void operator=(const at::Scalar& number) && { Value::tensor().fill_(number); }

  /// Returns a row of the tensor, or an element of the list or map.
  template <std::integral Index>
  Element operator[](Index index) const {
    return at_position(static_cast<int64_t>(index));
  }
  Element operator[](const at::Tensor& index) const { return Value::tensor()[index]; }
  Element operator[](std::string_view key) const { return Value::operator[](key); }

  using at::Tensor::size;
  using at::Tensor::to;
  using Value::size;
  Element to(c10::Device device) const { return Value::to(device); }
  Element to(c10::DeviceType type) const { return to(c10::Device(type)); }

 private:
  Element at_position(int64_t index) const;
};

inline Value::Value(const Element& element) : Value(static_cast<const Value&>(element)) {}

inline Element Element::at_position(int64_t index) const {
  if (is_tensor()) return at::Tensor::operator[](index);
  return Value::operator[](static_cast<size_t>(index));
}

inline std::unique_ptr<const Value> Value::find(std::string_view key) && {
  const Value* found = std::as_const(*this).find(key);
  return found != nullptr ? std::make_unique<const Value>(*found) : nullptr;
}

/// For `auto [x, y] = batch`. Throws UserError for what is no list or map of two.
template <size_t Index>
Element get(const Value& pair) {
  pair.check_pair();
  return pair[Index];
}

using Batch = Value;
using Output = Value;

}  // namespace cohort

template <>
struct std::tuple_size<cohort::Value> : std::integral_constant<size_t, 2> {};
template <size_t Index>
struct std::tuple_element<Index, cohort::Value> {
  using type = cohort::Element;
};
template <>
struct std::tuple_size<cohort::Element> : std::tuple_size<cohort::Value> {};
template <size_t Index>
struct std::tuple_element<Index, cohort::Element> : std::tuple_element<Index, cohort::Value> {};
