// Which functions of a table a class fills. Internal to the SDK.
#pragma once

#include <type_traits>

namespace cohort::sdk {
inline namespace v1 {
namespace detail {

template <class T>
struct AlwaysVoid {
  using type = void;
};

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk

/// Defines `declares_NAME<T>`: true where T has any member of that name, whatever its type or access. Looking the name
/// up in a class that derives from T and from a class with that name is ambiguous exactly then. A wrong signature is
/// thus a compile error and not a slot that silently stays empty.
#define COHORT_SDK_SLOT(NAME)                                                                                 \
  struct NameOf_##NAME {                                                                                      \
    int NAME;                                                                                                 \
  };                                                                                                          \
  template <class T>                                                                                          \
  struct Both_##NAME : T, NameOf_##NAME {};                                                                   \
  template <class T, class = void>                                                                            \
  struct Declares_##NAME : std::true_type {};                                                                 \
  template <class T>                                                                                          \
  struct Declares_##NAME<T, typename AlwaysVoid<decltype(&Both_##NAME<T>::NAME)>::type> : std::false_type {}; \
  template <class T>                                                                                          \
  inline constexpr bool declares_##NAME = Declares_##NAME<T>::value;

/// Is_NAME<T>: T declares `static constexpr bool NAME = true`.
#define COHORT_SDK_FLAG(NAME)            \
  template <class T, class = void>       \
  struct Is_##NAME : std::false_type {}; \
  template <class T>                     \
  struct Is_##NAME<T, typename AlwaysVoid<decltype(T::NAME)>::type> : std::bool_constant<T::NAME> {};
