// Events in the C interface of the driver: places in the order of a stream, or of what a stream captures.
#include <new>
#include <stdexcept>

#include "graph.hpp"
#include "guarded.hpp"

using fakedrv::Driver;
using fakedrv::guarded;

namespace {

// Captured work runs in replays alone, so the event has no moment at which it is done.
void refuse_captured(const fakedrv_event* event) {
  if (event->capture != 0) throw std::runtime_error("an event that was captured is not known to the host");
}

}  // namespace

extern "C" {

int fakedrv_create_event(fakedrv_event** event) {
  *event = new (std::nothrow) fakedrv_event;
  if (!*event) return fakedrv_fail("out of memory");
  return guarded([&](Driver& driver, auto&) { ++driver.num_events; });
}

void fakedrv_destroy_event(fakedrv_event* event) {
  delete event;
}

int fakedrv_record(fakedrv_event* event, fakedrv_stream* stream) {
  return guarded([&](Driver&, auto&) {
    const fakedrv::Capture& capture = stream->capture;
    *event = capture.graph ? fakedrv_event{stream, 0, capture.clock, capture.graph->id}
                           : fakedrv_event{stream, stream->issued, stream->clock, 0};
  });
}

int fakedrv_stream_waits(fakedrv_stream* stream, const fakedrv_event* event) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    if (!event->stream) return;
    if (event->capture != 0 || stream->capture.graph) return driver.follow_captured(*stream, *event);
    driver.wait_on_stream(lock, *stream, *event->stream, event->place, event->clock);
  });
}

int fakedrv_wait_for_event(const fakedrv_event* event) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    if (!event->stream) return;
    refuse_captured(event);
    ++driver.num_waits;
    driver.run_to(lock, *event->stream, event->place);
    driver.host_waited(event->clock);
  });
}

int fakedrv_poll_event(const fakedrv_event* event, int* is_done) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    *is_done = 1;
    if (!event->stream) return;
    refuse_captured(event);
    *is_done = driver.run_one(lock, *event->stream, event->place) ? 1 : 0;
    if (*is_done) driver.host_waited(event->clock);
  });
}

int fakedrv_run_to_event(const fakedrv_event* event) {
  return guarded([&](Driver& driver, Driver::Lock& lock) {
    refuse_captured(event);
    if (event->stream) driver.advance(lock, *event->stream, event->place);
  });
}

int fakedrv_event_is_done(const fakedrv_event* event) {
  int is_done = 0;
  guarded([&](Driver&, auto&) {
    is_done = !event->stream || (event->capture == 0 && event->stream->done >= event->place) ? 1 : 0;
  });
  return is_done;
}

}  // extern "C"
