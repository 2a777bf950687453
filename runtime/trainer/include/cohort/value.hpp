// What goes into a step and comes out of it: a tensor, or a list or map of such values, nested.
//
//   auto [x, y] = batch;                            // a list of two
//   auto loss = cross_entropy(net->forward(batch["image"].flatten(1)), batch["label"]);
//   return {{"loss", loss}, {"logits", logits}};    // a map
//
// A value type: copies share the tensors. Reading from several threads is safe, changing is not.
#pragma once

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
  Value(Map items) : held_(std::move(items)) {}           // NOLINT(google-explicit-constructor)
  Value(std::initializer_list<Map::value_type> items) : held_(Map(items)) {}
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

  /// Each throws UserError that says what the value is instead.
  const at::Tensor& tensor() const;
  const List& items() const;
  const Map& entries() const;
  operator const at::Tensor&() const { return tensor(); }  // NOLINT(google-explicit-constructor): forward(batch)

  /// Elements of a list or map; 0 otherwise.
  size_t size() const;
  /// Element of a list, or of a map by position. Throws UserError where there is none.
  Element operator[](size_t index) const;
  Element operator[](std::string_view key) const;
  /// Throws UserError unless this is a list or map of two.
  void check_pair() const;
  /// The element with this key, or null where the value is no map or has no such key.
  const Value* find(std::string_view key) const;

  /// Returns the number of samples of a batch: what `samples` has said, which the loader of a dataset does for each
  /// batch, else the size of dimension 0 of its tensors, or 1 if none has a dimension. Throws UserError if nothing was
  /// said and the tensors differ in dimension 0.
  int64_t batch_size() const;
  /// Says how many samples the batch has: for a stream, or a collate that does not make one of each sample. Means,
  /// replicas, predictions and throughput count them. Throws UserError below 0.
  Value& samples(int64_t count) &;
  Value samples(int64_t count) && { return std::move(samples(count)); }
  /// Says which of the samples that a collate was given are in the batch, and in which order: their positions there.
  /// Predictions belong to these.
  Value& kept_samples(std::vector<int64_t> positions) &;
  Value kept_samples(std::vector<int64_t> positions) && { return std::move(kept_samples(std::move(positions))); }
  /// Returns what was said, or null.
  const std::vector<int64_t>* kept_samples() const {
    return samples_ && samples_->has_kept ? &samples_->kept : nullptr;
  }
  bool says_samples() const { return samples_ != nullptr; }
  /// Returns this batch with what the other one says of its samples, unless it says that itself.
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

  const Value& at(size_t index) const;
  Value mapped(const std::function<at::Tensor(const at::Tensor&)>& change) const;

  std::variant<std::monostate, at::Tensor, List, Map> held_;
  std::shared_ptr<const Samples> samples_;  // null: nobody has said
};

/// An element of a list or map: its tensor, with all that a tensor can do, if it holds one (else an undefined tensor);
/// and the value in any case, so that elements of elements are reached.
class Element : public at::Tensor, public Value {
 public:
  Element(const Value& value)  // NOLINT(google-explicit-constructor)
      : at::Tensor(value.is_tensor() ? value.tensor() : at::Tensor()), Value(value) {}
  Element(const at::Tensor& tensor) : at::Tensor(tensor), Value(tensor) {}  // NOLINT(google-explicit-constructor)

  using Value::operator[];
  using at::Tensor::size;
  using at::Tensor::to;
  using Value::size;
  Element to(c10::Device device) const { return Value::to(device); }
  Element to(c10::DeviceType type) const { return to(c10::Device(type)); }
};

inline Value::Value(const Element& element) : Value(static_cast<const Value&>(element)) {}

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
