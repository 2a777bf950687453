/* The version of the plugin ABI, and the macros that read structs of another version.
 *
 * Draft: while the major version is 0 every commit may change the layout, and a plugin runs only on the host it was
 * built for. From 1.0 on the ABI grows only: vtables, descriptors and argument structs begin with `struct_size` and get
 * new fields at their end; service tables (`cohort/api/host/`) never change, a changed one gets a new id.
 */
#ifndef COHORT_API_VERSION_H
#define COHORT_API_VERSION_H

#include <stddef.h>
#include <stdint.h>

#define COHORT_ABI_MAJOR 0u
#define COHORT_ABI_MINOR 1u
#define COHORT_ABI_VERSION ((COHORT_ABI_MAJOR << 16) | COHORT_ABI_MINOR)

/* Number of bytes up to and including `field`. */
#ifdef __cplusplus
#define COHORT_END(type, field) (static_cast<uint32_t>(offsetof(type, field) + sizeof(type::field)))
#else
#define COHORT_END(type, field) ((uint32_t)(offsetof(type, field) + sizeof(((type*)0)->field)))
#endif

/* True where the struct that `pointer` points to has `field` and the field is not null. */
#define COHORT_HAS(pointer, type, field) ((pointer)->struct_size >= COHORT_END(type, field) && (pointer)->field)

#ifdef __cplusplus
#define COHORT_EXTERN_C_BEGIN extern "C" {
#define COHORT_EXTERN_C_END }
#else
#define COHORT_EXTERN_C_BEGIN
#define COHORT_EXTERN_C_END
#endif

/* No function of the ABI throws. Before C++17 this is no part of a function's type, and must not stand in a typedef. */
#if defined(__cplusplus) && __cplusplus >= 201703L
#define COHORT_NOEXCEPT noexcept
#else
#define COHORT_NOEXCEPT
#endif

/* Marks the one symbol that a plugin exports. */
#if defined(__GNUC__)
#define COHORT_EXPORT __attribute__((visibility("default")))
#else
#define COHORT_EXPORT
#endif

#endif
