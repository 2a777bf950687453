// The table slots that a class fills, and C functions that call its methods. Internal to the SDK.
//
// Every slot has a method of the same name in an SDK base class. A class fills the slot if it declares a method of that
// name: `&D::end_step` then points to a member of D, otherwise to one of Base.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace detail {

/// A check that `Method` can be called with the signature of `Default`, the base class's method.
template <class D, auto Method, class Default>
struct Fits;
template <class D, auto Method, class R, class B, class... Args>
struct Fits<D, Method, R (B::*)(Args...)> : std::is_invocable_r<R, decltype(Method), D&, Args...> {};
template <class D, auto Method, class R, class B, class... Args>
struct Fits<D, Method, R (B::*)(Args...) const> : std::is_invocable_r<R, decltype(Method), D&, Args...> {};

/// Returns whether D declares its own method instead of `Default`. Does not compile if its signature does not fit.
template <class D, auto Method, auto Default>
constexpr bool overrides() {
  constexpr bool is_own = !std::is_same_v<decltype(Method), decltype(Default)>;
  if constexpr (is_own) {
    static_assert(Fits<D, Method, decltype(Default)>::value,
                  "a method has the name of a slot but not its signature: compare `Method` and `Default`, which the "
                  "compiler names beside this message; the second one is the SDK's");
  }
  return is_own;
}

// Slots take structs as pointers, and methods take them as references.
template <class T>
T& argument(T* pointer) {
  return *pointer;
}
inline int32_t argument(int32_t value) {
  return value;
}
inline uint64_t argument(uint64_t value) {
  return value;
}
inline void* argument(void* memory) {
  return memory;
}
inline const void* argument(const void* memory) {
  return memory;
}

/// Calls `Method` on the D object at self->data.
template <class D, auto Method, class Self, class... Args>
cohort_status call(Self* self, Args... args) noexcept {
  return guard(self->host, [&] { (static_cast<D*>(self->data)->*Method)(argument(args)...); });
}

/// Fills `slot` if D overrides `Default`. Otherwise the slot stays null: it is inherited or composed.
template <class D, auto Method, auto Default, class Self, class... Args>
constexpr void fill(cohort_status (*&slot)(Self*, Args...) noexcept) {
  if constexpr (overrides<D, Method, Default>()) slot = call<D, Method, Self, Args...>;
}

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk
