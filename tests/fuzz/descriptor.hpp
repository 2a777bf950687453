// A plugin's descriptor as an input describes it: a good one and changes to it, each a letter and a value.
#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <cohort/api/collective.h>

#include "fuzz.hpp"

namespace cohort::fuzz {

class Descriptor {
 public:
  /// Takes all of the input.
  explicit Descriptor(Input& input) {
    add_component();
    while (!input.is_done()) change(input);
    build();
  }

  const cohort_plugin& plugin() const { return *built_; }

 private:
  static constexpr uint64_t kMostOptions = 256;        // that a host reads
  static constexpr std::size_t kLongestStruct = 4096;  // that a host believes

  struct Component {
    cohort_component fields{};
    std::vector<const char*> variants{"fast"};
    std::vector<cohort_option> options{{"bits", "int[1..64]", "8", "Bits of a number", nullptr, 0, 0}};
    std::optional<uint64_t> num_options{};
    uint32_t vtable_bytes = sizeof(cohort_collective_vt), flags = 0;
    std::vector<std::size_t> null_slots{};
  };

  cohort_plugin plugin_{COHORT_PLUGIN_MAGIC,
                        sizeof(cohort_plugin),
                        COHORT_ABI_VERSION,
                        COHORT_ABI_VERSION,
                        "org.example.ring",
                        "1.0.0",
                        "",
                        "",
                        nullptr,
                        nullptr,
                        nullptr};
  const cohort_plugin* built_ = nullptr;
  std::deque<Component> components_;
  std::vector<const cohort_component*> list_;
  std::deque<std::string> texts_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;

  void add_component() {
    Component& added = components_.emplace_back();
    const auto kind = static_cast<int32_t>(COHORT_KIND_ACCELERATOR - (components_.size() - 1) % 3);
    added.fields = {sizeof(cohort_component), kind, "ring", "A ring.", nullptr, nullptr, nullptr, 0, nullptr, nullptr};
  }

  const char* text(Input& input) {
    std::string text = input.text();
    return text == "\xff" ? nullptr : texts_.emplace_back(std::move(text)).c_str();
  }

  /// Capital letters change the descriptor, small ones the last component.
  void change(Input& input) {
    Component& last = components_.back();
    const std::pair<char, uint32_t*> numbers[]{{'M', &plugin_.magic},     {'S', &plugin_.struct_size},
                                               {'B', &plugin_.abi_built}, {'R', &plugin_.abi_required},
                                               {'t', &last.vtable_bytes}, {'s', &last.fields.struct_size},
                                               {'f', &last.flags}};
    const std::pair<char, const char**> texts[]{
        {'I', &plugin_.id},       {'V', &plugin_.version},     {'W', &plugin_.vendor},      {'L', &plugin_.license},
        {'n', &last.fields.name}, {'y', &last.fields.summary}, {'p', &last.fields.inherits}};
    const char letter = static_cast<char>(input.byte());
    for (const auto& [name, field] : numbers) {
      if (name == letter) *field = static_cast<uint32_t>(input.number(4));
    }
    for (const auto& [name, field] : texts) {
      if (name == letter) *field = text(input);
    }
    if (letter == 'C') add_component();
    if (letter == 'k') last.fields.kind = static_cast<int32_t>(input.number(4));
    if (letter == 'v') last.variants.push_back(text(input));
    if (letter == 'z') last.null_slots.push_back(input.byte());
    if (letter == 'x') last.num_options = input.number(8);
    if (letter != 'o') return;
    cohort_option& option = last.options.emplace_back();
    for (const char** field : {&option.key, &option.type, &option.default_value, &option.help}) *field = text(input);
  }

  /// Memory of a struct that claims so many bytes, as far as a host may believe it; reading beyond them is noticed.
  /// What no version knows is zero.
  template <class Struct>
  const Struct* copied(const Struct& from, uint32_t bytes) {
    const std::size_t length = std::clamp<std::size_t>(bytes, COHORT_END(Struct, struct_size), kLongestStruct);
    std::byte* const memory = memory_.emplace_back(new std::byte[length]()).get();
    std::memcpy(memory, &from, std::min(length, sizeof from));
    return reinterpret_cast<const Struct*>(memory);
  }

  const void* vtable_of(const Component& component) {
    std::vector<const void*> slots(std::clamp<std::size_t>(component.vtable_bytes, 8, kLongestStruct) / 8, &plugin_);
    for (const std::size_t slot : component.null_slots) slots[slot % slots.size()] = nullptr;
    const uint32_t head[]{component.vtable_bytes, component.flags};
    std::memcpy(slots.data(), head, sizeof head);
    std::byte* const memory = memory_.emplace_back(new std::byte[slots.size() * 8]).get();
    std::memcpy(memory, slots.data(), slots.size() * 8);
    return memory;
  }

  void build() {
    for (Component& component : components_) {
      cohort_component& fields = component.fields;
      component.variants.push_back(nullptr);
      fields.variants = component.variants.data();
      fields.options = component.options.data();
      fields.num_options = component.options.size();
      // A number that the host cannot know to be wrong would only show that the test has less memory.
      const uint64_t claimed = component.num_options.value_or(fields.num_options);
      if (claimed > kMostOptions || claimed < fields.num_options) fields.num_options = claimed;
      fields.vtable = component.vtable_bytes == 0 ? nullptr : vtable_of(component);
      list_.push_back(copied(fields, fields.struct_size));
    }
    list_.push_back(nullptr);
    plugin_.components = list_.data();
    built_ = copied(plugin_, plugin_.struct_size);
  }
};

}  // namespace cohort::fuzz
