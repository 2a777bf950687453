/* The version of the plugin ABI, and how its structs grow.
 *
 * Draft: while the major version is 0 every commit may change the layout, and a plugin runs only on the host it was
 * built for. From 1.0 on the ABI grows only: structs that begin with `struct_size` get new fields at their end; those
 * that stand in arrays, and the service tables of `cohort/api/host/`, are frozen then, and a changed one gets a new id.
 *
 * The side that allocates a struct zeroes it and sets struct_size; the other side reads a field if COHORT_COVERS says
 * that it is there: descriptors and tables are the plugin's, arguments of slots the host's, arguments of services the
 * plugin's. The host copies what plugins build into a zeroed struct of its own, so that whoever reads it next finds all
 * fields; it refuses what it does not know there: flags, bytes that are not zero behind the fields it knows, reserved
 * fields that are not zero. Plugins ignore flags and fields of the host's structs that they do not know.
 *
 * A plugin passes a struct of the host on as it is, or makes one of its own with its own sizeof as struct_size and the
 * fields that it knows (sdk::own_copy). It never copies one whole: the copy would claim the size of the host's struct
 * and have that of the plugin's.
 */
#ifndef COHORT_API_VERSION_H
#define COHORT_API_VERSION_H

#include <stddef.h>
#include <stdint.h>

#define COHORT_ABI_MAJOR 0u
#define COHORT_ABI_MINOR 2u
#define COHORT_ABI_VERSION ((COHORT_ABI_MAJOR << 16) | COHORT_ABI_MINOR)

/* The oldest host that the plugin shall run on, as (major << 16) | minor: what is newer in these headers is hidden, so
 * that structs have the sizes of that version. Defined before the first header is included, for every file of the
 * plugin alike. */
#ifndef COHORT_TARGET_ABI
#define COHORT_TARGET_ABI 2u /* 0.2 */
#endif
#if COHORT_TARGET_ABI < 2u
#error "COHORT_TARGET_ABI is older than what these headers can build for: they begin with 0.2"
#elif COHORT_TARGET_ABI > COHORT_ABI_VERSION
#error "COHORT_TARGET_ABI is newer than these headers: take those of a newer cohort"
#endif

/* The oldest host that the plugin can run on, at most COHORT_TARGET_ABI: an author who builds for newer hosts and can do
 * without what is new says so here. An older host then ignores what it does not know behind its own tables, and skips
 * components of kinds that it does not know; it still refuses flags that it does not know. The descriptor says it as
 * `abi_required`. */
#ifndef COHORT_RUNS_ON_ABI
#define COHORT_RUNS_ON_ABI COHORT_TARGET_ABI
#endif
#if COHORT_RUNS_ON_ABI > COHORT_TARGET_ABI
#error "COHORT_RUNS_ON_ABI is newer than COHORT_TARGET_ABI: the plugin would ask for more than it is built for"
#endif

/* Number of bytes up to and including `field`. TYPE_SIZE_1_0, beside a struct that plugins build, is the number that
 * every version of it has. */
#ifdef __cplusplus
#define COHORT_END(type, field) (static_cast<uint32_t>(offsetof(type, field) + sizeof(type::field)))
#else
#define COHORT_END(type, field) ((uint32_t)(offsetof(type, field) + sizeof(((type*)0)->field)))
#endif

/* True if the struct that `pointer` points to is long enough to have `field`. */
#define COHORT_COVERS(pointer, type, field) ((pointer)->struct_size >= COHORT_END(type, field))

/* True if it has this pointer, and the pointer is not null. */
#define COHORT_HAS(pointer, type, field) (COHORT_COVERS(pointer, type, field) && (pointer)->field)

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
