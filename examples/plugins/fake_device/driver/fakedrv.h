/* The driver of a fake device: memory, streams, events and a race check, as libcuda has them for CUDA.
 *
 * There are four devices. Their memory has addresses that no code of the host can use: a kernel turns an address into
 * bytes with fakedrv_contents, everything else ends with a fault that names the device. Work is enqueued on streams and
 * runs, by default, no sooner than somebody waits for it, on the thread that waits: so what forgets to wait finds old
 * bytes, every time. Each piece of work says which bytes it reads and writes; if nothing orders two accesses, the later
 * launch fails and names both.
 *
 * Functions return 0, or 1 after a failure that fakedrv_error describes. Any thread may call anything. A work that
 * fails leaves its text for the next wait for its stream.
 *
 * Variables of the environment, read when the library is first used:
 *   FAKE_DEVICE_EAGER=1       work runs when it is enqueued
 *   FAKE_DEVICE_RACE_CHECK=0  accesses are not compared
 *   FAKE_DEVICE_MIB=4096      memory of each device, which is reserved and not used up
 *   FAKE_DEVICE_PCI=ADDRESS   the PCI device that the accelerator plugin says the devices are
 *   FAKE_DEVICE_REPORT=FILE   each process adds a line with what it has counted when it ends
 */
#ifndef FAKEDRV_H
#define FAKEDRV_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAKEDRV_DEVICES 4

typedef struct fakedrv_stream fakedrv_stream;
typedef struct fakedrv_event fakedrv_event;
typedef struct fakedrv_graph fakedrv_graph;

/* Bytes that a work uses. Memory of the host has to be pinned. */
typedef struct fakedrv_access {
  const void* memory;
  uint64_t nbytes;
  uint32_t is_write;
  uint32_t reserved0;
} fakedrv_access;

/* Computes. Returns 0, or leaves a text with fakedrv_fail and returns what that returns. A work that was captured runs
 * in each replay, with the same argument. */
typedef int (*fakedrv_work)(void* arg);
/* Frees the argument of a work that has run for the last time. */
typedef void (*fakedrv_drop)(void* arg);

/* Returns the text of the calling thread's last failure. */
const char* fakedrv_error(void);
/* Keeps a text for fakedrv_error and returns 1. */
int fakedrv_fail(const char* text);

/* How work runs from now on; for tests. */
void fakedrv_set_eager(int is_eager);
void fakedrv_set_race_check(int is_on);

/* Returns how many launches and frees have failed because nothing orders their accesses. */
uint64_t fakedrv_num_races(void);
/* Returns how often the host has waited for work: for a stream, a device or an event. A poll is no wait. */
uint64_t fakedrv_num_waits(void);
/* Returns how many events were made. */
uint64_t fakedrv_num_events(void);

/* Memory. A block belongs to the stream that it was allocated on: once freed it serves that stream again at once, in
 * the order of the stream, and is filled with 0xff before. fakedrv_used_on adds a stream that the block has to be free
 * of as well, as record_stream does. fakedrv_free with a stream gives the block to that one. If no free
 * block is large enough, fakedrv_alloc waits for all streams and joins free blocks, as allocators of drivers do. Blocks
 * are multiples of 512 bytes. */
int fakedrv_alloc(fakedrv_stream* stream, uint64_t nbytes, void** memory);
int fakedrv_used_on(const void* memory, fakedrv_stream* stream);
int fakedrv_free(void* memory, fakedrv_stream* stream_or_null);
/* Frees for a caller that cannot take a failure: the next wait for the block's stream has it. */
void fakedrv_release(void* memory);
/* Returns the device that an address belongs to, -1 for memory of the host. */
int fakedrv_device_of(const void* memory);
/* Returns where a work finds the bytes of an address; memory of the host is found where it is. */
void* fakedrv_contents(const void* memory);
/* Bytes of a device that are allocated now. */
uint64_t fakedrv_allocated(int device);
/* Returns how many bytes a device has in all. */
uint64_t fakedrv_capacity(int device);

/* Host memory that copies reach without waiting. */
int fakedrv_alloc_pinned(uint64_t nbytes, void** memory);
int fakedrv_free_pinned(void* memory);
int fakedrv_is_pinned(const void* memory);

/* The calling thread's current device, 0 until another was set. */
int fakedrv_current_device(void);
int fakedrv_set_device(int device);

/* Streams. Those of fakedrv_default_stream live for ever; a stream is destroyed after it was waited for. */
int fakedrv_create_stream(int device, fakedrv_stream** stream);
int fakedrv_destroy_stream(fakedrv_stream* stream);
fakedrv_stream* fakedrv_default_stream(int device);
int fakedrv_stream_device(const fakedrv_stream* stream);
int fakedrv_stream_number(const fakedrv_stream* stream);
/* Returns the stream with this number, or null. */
fakedrv_stream* fakedrv_find_stream(int number);
/* Returns the calling thread's stream of a device: the default one until another was made current. */
fakedrv_stream* fakedrv_current_stream(int device);
/* Makes a stream the calling thread's current one of its device and returns the one that was. */
fakedrv_stream* fakedrv_exchange_stream(fakedrv_stream* stream);

/* Enqueues a work; `name` is for messages and is copied. `drop` may be null. If it fails, `arg` was dropped. */
int fakedrv_launch(fakedrv_stream* stream, const char* name, const fakedrv_access* accesses, uint64_t num_accesses,
                   fakedrv_work work, void* arg, fakedrv_drop drop);
/* Runs a work that the caller needs the results of at once: all that is enqueued comes first. For the race check nobody
 * has waited, since hardware would only have enqueued it. After a failure the work may or may not have run. */
int fakedrv_call(fakedrv_stream* stream, const char* name, const fakedrv_access* accesses, uint64_t num_accesses,
                 fakedrv_work work, void* arg);
/* Enqueues a copy between any two places. Ordinary host memory is read before the call returns; into ordinary host
 * memory the copy is done when the call returns. */
int fakedrv_copy(fakedrv_stream* stream, void* to, const void* from, uint64_t nbytes);
/* Enqueues a fill with a byte. */
int fakedrv_fill(fakedrv_stream* stream, void* memory, int byte, uint64_t nbytes);
/* Returns when everything enqueued is done. */
int fakedrv_wait(fakedrv_stream* stream);
/* Runs one piece of work and sets `*is_done` to 1 if that was the last one. */
int fakedrv_poll(fakedrv_stream* stream, int* is_done);
int fakedrv_wait_for_device(int device);

/* Events: a place in a stream's order. An event that was not recorded is done. */
int fakedrv_create_event(fakedrv_event** event);
void fakedrv_destroy_event(fakedrv_event* event);
int fakedrv_record(fakedrv_event* event, fakedrv_stream* stream);
/* What is enqueued on `stream` from now on runs after the event. */
int fakedrv_stream_waits(fakedrv_stream* stream, const fakedrv_event* event);
int fakedrv_wait_for_event(const fakedrv_event* event);
int fakedrv_poll_event(const fakedrv_event* event, int* is_done);
/* Runs what comes before the event, as hardware would have by itself: for the race check nobody has waited, and a
 * failure stays for the next wait. */
int fakedrv_run_to_event(const fakedrv_event* event);
/* Returns 1 if the event is done, and runs nothing. */
int fakedrv_event_is_done(const fakedrv_event* event);

/* Graphs. While a stream captures, what it is given is recorded and does not run; a stream that waits for an event of
 * it captures too, until the first one ends the capture behind all of their work. Meanwhile the host can neither wait
 * for nor poll these streams, copies have no ordinary host memory, and events from outside are no part of the order:
 * each of these fails, and so does then the end. Memory that is allocated on such a stream is kept for the graph. */
int fakedrv_begin_capture(fakedrv_stream* stream, fakedrv_graph** graph);
int fakedrv_end_capture(fakedrv_stream* stream);
/* Returns which capture the stream is part of, counted from 1, or 0. */
uint64_t fakedrv_capture(const fakedrv_stream* stream);
/* Each replay returns when it has run what was captured last, as if the device had done it by then; nobody has waited.
 * For work on something that other work of the host must find in order. */
int fakedrv_replay_at_once(fakedrv_stream* stream);
/* Enqueues all that was captured, with the same addresses, behind the newest replay of the graph. */
int fakedrv_replay(fakedrv_graph* graph, fakedrv_stream* stream);
/* Waits for the newest replay, gives the memory free, and ends a capture that goes on. */
int fakedrv_destroy_graph(fakedrv_graph* graph);

#ifdef __cplusplus
}
#endif
#endif
