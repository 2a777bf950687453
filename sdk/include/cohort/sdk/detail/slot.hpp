// Which slots of a table a class fills, and the C functions that call its methods. Internal to the SDK.
//
// Every slot has a method of the same name in a base class of the SDK. A class fills the slot if it declares a method
// of that name itself: `&D::end_step` then is a pointer to a member of another class than `&Base::end_step`.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace detail {

/// Whether `Method` may be called as `Default`, the method of the base class, is declared.
template <class D, auto Method, class Default>
struct Fits;
template <class D, auto Method, class R, class B, class... Args>
struct Fits<D, Method, R (B::*)(Args...)> : std::is_invocable_r<R, decltype(Method), D&, Args...> {};
template <class D, auto Method, class R, class B, class... Args>
struct Fits<D, Method, R (B::*)(Args...) const> : std::is_invocable_r<R, decltype(Method), D&, Args...> {};

/// Returns whether D has a method of its own in place of `Default`. Does not compile if it has another signature.
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

// Structs reach a slot as pointers and a method as references.
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

/// Calls `Method` of the D that a component's `data` points to.
template <class D, auto Method, class Self, class... Args>
cohort_status call(Self* self, Args... args) noexcept {
  return guard(self->host, [&] { (static_cast<D*>(self->data)->*Method)(argument(args)...); });
}

/// Fills a slot if D overrides `Default`; else it stays null, which means that it is inherited or composed.
template <class D, auto Method, auto Default, class Self, class... Args>
constexpr void fill(cohort_status (*&slot)(Self*, Args...) noexcept) {
  if constexpr (overrides<D, Method, Default>()) slot = call<D, Method, Self, Args...>;
}

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk
