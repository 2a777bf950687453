/* The version of the plugin ABI, and the rules by which its structs grow.
 *
 * Draft: while the major version is 0, every commit may change the layout, and a plugin runs only on the host that it
 * was built for. From 1.0 on the ABI only grows: a struct that begins with `struct_size` gets new fields at its end.
 * Structs in arrays, and the service tables of `cohort/api/host/`, are frozen then; a changed one gets a new id.
 *
 * The side that allocates a struct zeroes it and sets struct_size. The other side reads a field only if COHORT_COVERS
 * says that the field is there. The plugin allocates descriptors, tables and arguments of services; the host allocates
 * arguments of slots. The host copies the structs of a plugin into zeroed structs of its own, so that every later
 * reader finds all fields. It refuses unknown flags, nonzero bytes behind the fields that it knows, and nonzero
 * reserved fields. Plugins ignore unknown flags and fields in structs of the host.
 *
 * A plugin passes a struct of the host on unchanged, or makes one of its own, with its own sizeof as struct_size and
 * the fields that it knows (sdk::own_copy). It never copies a struct of the host whole: the copy
 * would have the size of the plugin's struct, and in struct_size the size of the host's.
 */
#ifndef COHORT_API_VERSION_H
#define COHORT_API_VERSION_H

#include <stddef.h>
#include <stdint.h>

#define COHORT_ABI_MAJOR 0u
#define COHORT_ABI_MINOR 2u
#define COHORT_ABI_VERSION ((COHORT_ABI_MAJOR << 16) | COHORT_ABI_MINOR)

/* ABI version of the oldest host that the plugin is built for, as (major << 16) | minor. Newer parts of these headers
 * are hidden, so that structs have the sizes of that version. Define it before the first header is included, alike in
 * every file of the plugin. */
#ifndef COHORT_TARGET_ABI
#define COHORT_TARGET_ABI 2u /* 0.2 */
#endif
#if COHORT_TARGET_ABI < 2u
#error "COHORT_TARGET_ABI is older than what these headers can build for: they begin with 0.2"
#elif COHORT_TARGET_ABI > COHORT_ABI_VERSION
#error "COHORT_TARGET_ABI is newer than these headers: take those of a newer cohort"
#endif

/* ABI version of the oldest host that the plugin can run on, at most COHORT_TARGET_ABI. Lower it if the plugin is built
 * for newer hosts but can do without their additions. An older host ignores additions behind its own tables and skips
 * components of unknown kinds; it still refuses unknown flags. The descriptor carries the value as `abi_required`. */
#ifndef COHORT_RUNS_ON_ABI
#define COHORT_RUNS_ON_ABI COHORT_TARGET_ABI
#endif
#if COHORT_RUNS_ON_ABI > COHORT_TARGET_ABI
#error "COHORT_RUNS_ON_ABI is newer than COHORT_TARGET_ABI: the plugin would ask for more than it is built for"
#endif

/* Number of bytes of `type` up to and including `field`. TYPE_SIZE_1_0, beside a struct that plugins build, is the
 * number of bytes that every version of the struct has. */
#ifdef __cplusplus
#define COHORT_END(type, field) (static_cast<uint32_t>(offsetof(type, field) + sizeof(type::field)))
#else
#define COHORT_END(type, field) ((uint32_t)(offsetof(type, field) + sizeof(((type*)0)->field)))
#endif

/* Tells if the struct at `pointer` is long enough to have `field`. */
#define COHORT_COVERS(pointer, type, field) ((pointer)->struct_size >= COHORT_END(type, field))

/* Tells if the struct at `pointer` has the pointer `field`, and that pointer is not null. */
#define COHORT_HAS(pointer, type, field) (COHORT_COVERS(pointer, type, field) && (pointer)->field)

#ifdef __cplusplus
#define COHORT_EXTERN_C_BEGIN extern "C" {
#define COHORT_EXTERN_C_END }
#else
#define COHORT_EXTERN_C_BEGIN
#define COHORT_EXTERN_C_END
#endif

/* No function of the ABI throws. Before C++17 `noexcept` is no part of a function's type and must not stand in a
 * typedef. */
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
